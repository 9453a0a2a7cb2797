/** Counts the listeners of all signals that got one since: a loop must not add one in each round. */
import { getEventListeners } from "node:events";
import { onTestFinished, vi } from "vitest";

/** @returns the most listeners that one of those signals has now */
export function watchAbortListeners(): () => number {
  const added = vi.spyOn(EventTarget.prototype, "addEventListener");
  onTestFinished(() => added.mockRestore());
  return () => {
    const signals = new Set(added.mock.contexts.filter((one) => one instanceof AbortSignal));
    return Math.max(
      0,
      ...Array.from(signals, (signal) => getEventListeners(signal, "abort").length),
    );
  };
}
