/**
 * How often a test repeats the same property, be it over seeds, clients or histories: with TEST_FULL=1 as often
 * as it should before a release, else as often as a run of all tests within minutes allows.
 */
export function repetitions(counts: { readonly usual: number; readonly full: number }): number {
  return process.env["TEST_FULL"] === "1" ? counts.full : counts.usual;
}
