/** Keys of a list: its rows carry `data-row` (the row's id) and `tabIndex={-1}`. */
import type { KeyboardEvent, RefObject } from "react";
import { type Shortcuts, useShortcuts } from "./shortcuts.js";

/** The row that has the focus, itself or within it: its id. */
export const focusedRow = (): string | undefined =>
  document.activeElement?.closest<HTMLElement>("[data-row]")?.dataset.row;

/** `j` and `k` give the next and the previous row the focus, which rows that come and go keep. */
export function useRowKeys(list: RefObject<HTMLElement | null>, more: Shortcuts = {}): void {
  const step = (by: 1 | -1) => () => {
    const rows = [...(list.current?.querySelectorAll<HTMLElement>("[data-row]") ?? [])];
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const next = at === -1 ? rows[0] : rows[Math.max(0, Math.min(rows.length - 1, at + by))];
    next?.focus();
  };
  useShortcuts({ j: step(1), k: step(-1), ...more });
}

/** For a row's `onKeyDown`: Enter opens it, but not from a button or link within it. */
export const openOnEnter =
  (open: () => void) =>
  (event: KeyboardEvent): void => {
    if (event.key === "Enter" && event.target === event.currentTarget) open();
  };
