/** The matrix as people read it. */
import { FAULTS, type Fault, FEATURES } from "./features.js";
import type { Cell } from "./matrix.js";

const FAULT_NAMES: Readonly<Record<Fault, string>> = {
  kill: "kill -9",
  stop: "SIGSTOP",
  restart: "restart",
};

/** Markdown: a row for each feature and fault, a column for each engine, and all reasons below. */
export function tableOf(cells: readonly Cell[]): string {
  const engines = [...new Set(cells.map(({ engine }) => engine))];
  const reasons: string[] = [];
  const mark = ({ engine, fault, feature, verdict, reason }: Cell) => {
    // A wrong verdict belongs to one feature; all other reasons belong to the engine.
    const of = verdict === "wrong" ? `${engine}, ${feature}, ` : `${engine}, `;
    const text = reason === undefined ? "" : `${of}${FAULT_NAMES[fault]}: ${reason}`;
    if (text !== "" && !reasons.includes(text)) reasons.push(text);
    const note = text === "" ? "" : ` [${reasons.indexOf(text) + 1}]`;
    // The reason in short stands before its colon.
    const none = (reason ?? "").split(":", 1)[0] ?? "";
    return { right: "✓", wrong: "✗", none }[verdict] + note;
  };
  const rows = FEATURES.flatMap((feature) => FAULTS.map((fault) => ({ feature, fault })))
    .filter((row) => cells.some((cell) => cell.feature === row.feature && cell.fault === row.fault))
    .map(({ feature, fault }) => [
      feature,
      FAULT_NAMES[fault],
      ...engines.map((engine) => {
        const cell = cells.find(
          (each) => each.engine === engine && each.feature === feature && each.fault === fault,
        );
        return cell ? mark(cell) : "";
      }),
    ]);
  const table = [["feature", "fault", ...engines], ...rows];
  const widths = table[0]?.map((_, at) => Math.max(...table.map((row) => row[at]?.length ?? 0)));
  const lines = table.map(
    (row) => `| ${row.map((text, at) => text.padEnd(widths?.[at] ?? 0)).join(" | ")} |`,
  );
  const rule = `|${widths?.map((width) => "-".repeat(width + 2)).join("|")}|`;
  const [head = "", ...body] = lines;
  const notes = reasons.map((reason, at) => `[${at + 1}] ${reason}`);
  return [head, rule, ...body, "", ...notes].join("\n");
}

/** Whether each cell that was asked for was tried and is right, or has a reason not to be tried. */
export function isGreen(cells: readonly Cell[], expected: number): boolean {
  const isFine = ({ verdict, reason }: Cell) =>
    verdict === "right" || (verdict === "none" && reason !== undefined && reason !== "");
  return cells.length === expected && cells.every(isFine);
}
