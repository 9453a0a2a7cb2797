/** A table about other projects is only true of a version: each project of docs/comparison.md names the one that was checked. */
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const page = await readFile(
  fileURLToPath(new URL("../../docs/comparison.md", import.meta.url)),
  "utf8",
);

/** The rows of the table below a heading, without its head, as cells. */
function rowsBelow(heading: string): string[][] {
  const section = page.split(`\n## ${heading}\n`)[1]?.split("\n## ")[0] ?? "";
  return section
    .split("\n")
    .filter((line) => line.startsWith("|"))
    .slice(2)
    .map((line) =>
      line
        .slice(1, -1)
        .split("|")
        .map((cell) => cell.trim()),
    );
}

const checked = new Map(rowsBelow("What was checked").map(([name, ...rest]) => [name, rest]));

const compared = ["Locks and elections", "Tasks"]
  .flatMap((heading) => rowsBelow(heading))
  .flatMap(([names = ""]) => names.split(", "))
  .filter((name) => name !== "Leasehold");

it("names a version and a source for each project that it compares", () => {
  expect(compared.length).toBeGreaterThan(15);
  for (const name of compared) {
    const project = [...checked.keys()].find((known) => known && name.startsWith(known));
    expect
      .soft(project, `docs/comparison.md, "What was checked", has no row for ${name}`)
      .toBeDefined();
  }
});

it("names what it doesn't know, where a version is missing", () => {
  for (const [name, [version, source]] of checked) {
    expect.soft(version, name).toMatch(/\d+\.\d+|no version named/);
    expect.soft(source, name).toMatch(/source|package|documentation|SQL/);
  }
});

it("says on which day it was checked", () => {
  expect(page).toMatch(/were checked on \d{4}-\d{2}-\d{2} against/);
});
