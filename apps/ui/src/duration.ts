const UNITS: readonly [string, number][] = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1_000],
];

/** 93,000 -> "1 min 33 s". Below ten seconds with one decimal, below one second in milliseconds. */
export function durationText(ms: number): string {
  const size = Math.abs(ms);
  if (size < 1_000) return `${Math.round(ms)} ms`;
  if (size < 10_000) return `${(ms / 1_000).toFixed(1)} s`;
  const at = UNITS.findIndex(([, unitMs]) => size >= unitMs);
  const [name, unitMs] = UNITS[at] ?? ["s", 1_000];
  const next = UNITS[at + 1];
  const whole = Math.floor(size / unitMs);
  const rest = next ? Math.floor((size % unitMs) / next[1]) : 0;
  const sign = ms < 0 ? "-" : "";
  return `${sign}${whole} ${name}${next && rest > 0 ? ` ${rest} ${next[0]}` : ""}`;
}
