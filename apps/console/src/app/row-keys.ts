/** Keyboard navigation in a list. Its rows have `data-row` (the row's id) and `tabIndex={-1}`. */
import { type Shortcuts, useShortcuts } from "leasehold-ui";
import type { KeyboardEvent, RefObject } from "react";

/** The id of the row that has or contains the focus. */
export const focusedRow = (): string | undefined =>
  document.activeElement?.closest<HTMLElement>("[data-row]")?.dataset.row;

/** `j` and `k` move the focus to the next and the previous row. Other rows may come and go meanwhile. */
export function useRowKeys(list: RefObject<HTMLElement | null>, more: Shortcuts = {}): void {
  const step = (by: 1 | -1) => () => {
    const rows = [...(list.current?.querySelectorAll<HTMLElement>("[data-row]") ?? [])];
    const at = rows.findIndex((row) => row.contains(document.activeElement));
    const next = at === -1 ? rows[0] : rows[Math.max(0, Math.min(rows.length - 1, at + by))];
    next?.focus();
  };
  useShortcuts({ j: step(1), k: step(-1), ...more });
}

/** For a row's `onKeyDown`: Enter opens the row, unless a button or link inside it has the focus. */
export const openOnEnter =
  (open: () => void) =>
  (event: KeyboardEvent): void => {
    if (event.key === "Enter" && event.target === event.currentTarget) open();
  };
