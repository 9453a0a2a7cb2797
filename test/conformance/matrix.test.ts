/** Every store is held against the suite, and its promise is written down. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

const root = new URL("../../", import.meta.url);
const STORES = readdirSync(new URL("src/stores/", root), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .filter((name) => readdirSync(new URL(`src/stores/${name}/`, root)).length > 0);

it.each(STORES)("%s runs the suite of lease stores", (name) => {
  const file = new URL(`test/conformance/${name}.test.ts`, root);
  expect(existsSync(file), `test/conformance/${name}.test.ts is missing`).toBe(true);
  expect(readFileSync(file, "utf8")).toContain("exerciseLeaseStore(");
});
