import Table from "cli-table3";
import { colors } from "./output.js";

/** Columns without lines around them, so that they can be cut and searched. */
export function plainTable(head: string[]): Table.Table {
  const parts = ["top", "bottom", "left", "right", "mid"].flatMap((side) => [
    side,
    `${side}-mid`,
    `${side}-left`,
    `${side}-right`,
  ]);
  return new Table({
    head: head.map((name) => colors.bold(name)),
    chars: { ...Object.fromEntries(parts.map((part) => [part, ""])), middle: "  " },
    style: { head: [], border: [], "padding-left": 0, "padding-right": 0 },
  });
}
