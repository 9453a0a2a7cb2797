/** Keyboard shortcuts. They are off while the focus is in a text field. */
import { useEffect, useRef } from "react";

export type Shortcuts = Readonly<Record<string, (event: KeyboardEvent) => void>>;

/** After a first key, such as `g`, the second must follow within this time. */
const SEQUENCE_MS = 1_000;

function typing(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}

/**
 * Whether the focused element handles this key itself. A button that was focused by a click (not by Tab)
 * leaves the space key to the page.
 */
function isOwnKey(target: EventTarget | null, key: string): boolean {
  if (!(target instanceof Element)) return false;
  if (key === " ") return target.matches(":is(button, summary, [role=menuitem]):focus-visible");
  return (
    key.startsWith("Arrow") && target.closest("[role=menu], [role=tablist], [role=slider]") !== null
  );
}

/** @param shortcuts by key or by a sequence such as `g l`; `mod+k` is Ctrl or Command, also while typing */
export function useShortcuts(shortcuts: Shortcuts): void {
  const latest = useRef(shortcuts);
  useEffect(() => {
    latest.current = shortcuts;
  });
  useEffect(() => {
    let first = "";
    let firstMs = 0;
    const onKey = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.isComposing || event.altKey) return;
      const { key } = event;
      if (isOwnKey(event.target, key)) return;
      const mod = event.ctrlKey || event.metaKey;
      if (!mod && (typing(event.target) || document.querySelector("dialog[open]"))) return;
      const sequence = first && event.timeStamp - firstMs < SEQUENCE_MS ? `${first} ${key}` : key;
      const run =
        latest.current[mod ? `mod+${key.toLowerCase()}` : sequence] ??
        (mod ? undefined : latest.current[key]);
      first = key;
      firstMs = event.timeStamp;
      if (!run) return;
      event.preventDefault();
      first = "";
      run(event);
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
}
