const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const DURATION = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/;

/**
 * `500ms`, `30s`, `1.5m`, `2h`, `90d`, or a bare `0`, in whole milliseconds; null for anything else. Less than a millisecond stays a
 * fraction, so that a caller can refuse it: as 0 it would mean something else.
 */
export function parseDuration(text: string): number | null {
  if (text === "0") return 0;
  const [, amount, unit] = DURATION.exec(text) ?? [];
  if (amount === undefined || unit === undefined) return null;
  const ms = Number(amount) * UNITS[unit as keyof typeof UNITS];
  return ms < 1 ? ms : Math.round(ms);
}

/** For people: `850ms`, `3.2s`, `12s`, `4m`, `3h`. */
export function formatDuration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)}ms`;
  if (ms < 9_950) return `${(ms / 1_000).toFixed(1)}s`;
  if (ms < 120_000) return `${Math.round(ms / 1_000)}s`;
  if (ms < 2 * UNITS.h) return `${Math.round(ms / UNITS.m)}m`;
  return `${Math.round(ms / UNITS.h)}h`;
}
