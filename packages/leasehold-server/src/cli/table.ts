import Table from "cli-table3";
import { colors } from "./output.js";

/** A table without borders, so that cut and grep can process it. */
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
