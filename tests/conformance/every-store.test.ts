/** Every store is held against the suite, and its promise is written down. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

const root = new URL("../../", import.meta.url);
const STORES = readdirSync(new URL("packages/leasehold/src/stores/", root), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .filter(
    (name) => readdirSync(new URL(`packages/leasehold/src/stores/${name}/`, root)).length > 0,
  );

it.each(STORES)("%s runs the suite of lease stores", (name) => {
  const file = new URL(`tests/conformance/${name}.test.ts`, root);
  expect(existsSync(file), `tests/conformance/${name}.test.ts is missing`).toBe(true);
  expect(readFileSync(file, "utf8")).toContain("exerciseLeaseStore(");
});

const read = (path: string) => readFileSync(new URL(path, root), "utf8");
/** A folder may be named in short: postgres. */
const begins = (name: string) => new RegExp(`^\\W*${name}`, "i");

it.each(STORES)("%s has its promise written down", (name) => {
  const lines = read("docs/guarantees.md").split("\n");
  const heading = lines.find((line) => line.startsWith("## ") && begins(name).test(line));
  expect(heading, `docs/guarantees.md has no section on ${name}`).toBeDefined();
  const anchor = `](#${heading?.slice(3).toLowerCase()})`;
  const row = lines.find((line) => line.startsWith("| [") && line.includes(anchor));
  expect(row, `the table of docs/guarantees.md has no row on ${name}`).toBeDefined();
  const known = read("README.md")
    .split("\n")
    .some((line) => line.startsWith("| ") && begins(name).test(line));
  expect(known, `the table of README.md has no row on ${name}`).toBe(true);
});
