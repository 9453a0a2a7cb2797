/** The list of planted bugs does not rot: each still finds the one place that it spoils, and its check. */
import { existsSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

const root = new URL("../", import.meta.url);
const script = (name: string) => new URL(`scripts/planted-bugs/${name}`, root).href;

interface Bug {
  readonly name: string;
  readonly area: string;
  readonly file: string;
  readonly find: string;
  readonly by: string;
  readonly what: string;
  readonly check: { readonly what: string };
}
const { BUGS } = (await import(script("bugs.js"))) as { readonly BUGS: readonly Bug[] };

it("names each once", () => {
  const names = BUGS.map(({ name }) => name);
  expect(names).toEqual([...new Set(names)]);
  expect(BUGS.length).toBeGreaterThanOrEqual(40);
});

it.each(BUGS)(
  "$area: $name stands in one place, and is another text",
  ({ file, find, by, what }) => {
    const source = readFileSync(new URL(file, root), "utf8");
    expect(source.split(find).length - 1, `places in ${file}`).toBe(1);
    expect(by).not.toBe(find);
    expect(what).toMatch(/^.{20,}\.$/);
  },
);

it("is caught by tests that there are", () => {
  const files = BUGS.flatMap(({ check }) => /`(\S+\.test\.ts)`/.exec(check.what)?.[1] ?? []);
  expect(files.filter((file) => !existsSync(new URL(file, root)))).toEqual([]);
});
