/** The table of packages/leasehold/README.md. */
import { table } from "../../verification/support/markdown.js";
import type { Row } from "./row.js";

/** A line for each part of the rows' names before the colon; those of which the same is said share one. */
export function whereItRuns(rows: readonly Row[]): string {
  const lines = new Map<string, { works: string[]; fails: string[] }>();
  for (const { name, fails } of rows) {
    const [where = "", what = ""] = name.split(": ");
    const line = lines.get(where) ?? { works: [], fails: [] };
    lines.set(where, line);
    if (fails) line.fails.push(`${what} (${fails.reason})`);
    else line.works.push(what);
  }
  const places = new Map<string, string[]>();
  for (const [where, { works, fails }] of lines) {
    const cells = JSON.stringify([works.join(", "), fails.join("; ")]);
    places.set(cells, [...(places.get(cells) ?? []), where]);
  }
  return table(
    ["where", "works", "does not work"],
    [...places].map(([cells, wheres]) => [wheres.join(", "), ...(JSON.parse(cells) as string[])]),
  );
}
