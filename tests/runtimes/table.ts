/** The results as people read them. */
import { table } from "../../verification/support/markdown.js";
import type { Result } from "./row.js";

const SHOWN_CHARACTERS = 2_000;

/** A table, and below it what is wrong in full. */
export function tableOf(results: readonly Result[]): string {
  const rows = results.map(({ name, tries, verdict, reason, seconds }) => [
    name,
    tries,
    verdict === "wrong" || reason === undefined ? verdict : `${verdict}: ${reason}`,
    seconds.toFixed(1),
  ]);
  const wrong = results
    .filter(({ verdict }) => verdict === "wrong")
    .map(({ name, reason = "" }) => `wrong: ${name}\n${reason.slice(0, SHOWN_CHARACTERS)}`);
  return [aligned(table(["row", "tries", "works", "seconds"], rows)), ...wrong].join("\n\n");
}

/** Columns of one width each. */
function aligned(markdown: string): string {
  const rows = markdown.split("\n").map((line) => line.slice(2, -2).split(" | "));
  const widths = rows[0]?.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  const pad = (text: string, at: number) =>
    text === "---" ? "-".repeat(widths?.[at] ?? 0) : text.padEnd(widths?.[at] ?? 0);
  return rows.map((row) => `| ${row.map(pad).join(" | ")} |`).join("\n");
}
