/**
 * The suites of a store run in one tier each: on memory and PGlite as `contract`, and on what is slower as `engines`. A file of suites is in both.
 */
export function runsIn(tier: "contract" | "engines"): boolean {
  const current = process.env["TEST_TIER"];
  return current === undefined || current === tier;
}
