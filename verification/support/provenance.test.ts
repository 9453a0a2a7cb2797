/** The command of a report, which a reader can run again. */
import { expect, it } from "vitest";

const script = new URL("provenance.js", import.meta.url).href;
const { provenance } = (await import(script)) as {
  provenance(argv: readonly string[]): { readonly command: string };
};

it.each([
  ["of an argument with a space, in quotes", ["--area", "strangers 1"], '--area "strangers 1"'],
  ["without the file that it writes", ["--json", "report.json", "--seeds", "1"], "--seeds 1"],
  ["without the folder of `=`", ["--keep=folder", "--seeds", "1"], "--seeds 1"],
  ["of a report that it prints", ["--json", "--seeds", "1"], "--json --seeds 1"],
  ["without passwords", ["postgres://me:secret@127.0.0.1/db"], "postgres://127.0.0.1/db"],
])("is that %s", (_, args, said) => {
  const { command } = provenance(["verification/run.js", ...args]);
  expect(command).toBe(`node verification/run.js ${said}`);
});
