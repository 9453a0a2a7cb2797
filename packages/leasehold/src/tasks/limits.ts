/**
 * When a rate lets tasks start. A window begins with the first start after the last one has ended, and lets `limit` tasks
 * start; what it has left when it ends is lost.
 *
 *   limit 3   ●  ●    ●        ●●●                ●
 *             ├─────────────┤  ├─────────────┤    ├─────────────┤   perMs each
 *
 * All times are the store's. A clock that steps back, to before the window, begins a new one. (PostgreSQL looks at a key whose
 * rate is used up again when another task of it comes, or when the clock comes to the window's end.)
 */
import type { Rate } from "./values.js";

/** The last window of a rate: when it began, and how many tasks have started in it. */
export interface RateWindow {
  readonly startMs: number;
  readonly used: number;
}

/** How many tasks may start now. */
export function permitsOf(
  rate: Rate | null | undefined,
  last: RateWindow | undefined,
  nowMs: number,
): number {
  if (!rate) return Number.POSITIVE_INFINITY;
  const current = currentOf(rate, last, nowMs);
  return Math.max(0, rate.limit - (current?.used ?? 0));
}

/** The window that is under way. */
export function currentOf(
  { perMs }: Rate,
  last: RateWindow | undefined,
  nowMs: number,
): RateWindow | undefined {
  return last && last.startMs <= nowMs && nowMs < last.startMs + perMs ? last : undefined;
}

/** The last window once one more task has started. */
export function started(rate: Rate, last: RateWindow | undefined, nowMs: number): RateWindow {
  const { startMs, used } = currentOf(rate, last, nowMs) ?? { startMs: nowMs, used: 0 };
  return { startMs, used: used + 1 };
}

/** When the next window may begin; null while the rate lets tasks start. */
export function usedUpUntilMs(
  rate: Rate | null | undefined,
  last: RateWindow | undefined,
  nowMs: number,
): number | null {
  if (!rate || !last || permitsOf(rate, last, nowMs) > 0) return null;
  return last.startMs + rate.perMs;
}
