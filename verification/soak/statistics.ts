/** NaN of nothing. */
export function quantile(values: readonly number[], ratio: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(ratio * sorted.length))] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

export interface Point {
  readonly atMs: number;
  readonly value: number;
}

/**
 * Growth in units a millisecond: the median of the slopes between all pairs (Theil and Sen), which a few
 * points that stand out do not move.
 */
export function slope(points: readonly Point[]): number {
  const slopes: number[] = [];
  for (const [index, to] of points.entries()) {
    for (const from of points.slice(0, index)) {
      if (to.atMs > from.atMs) slopes.push((to.value - from.value) / (to.atMs - from.atMs));
    }
  }
  return slopes.length === 0 ? 0 : median(slopes);
}

/** How much of a span is covered by windows that may overlap. */
export function coveredMs(
  windows: readonly { readonly fromMs: number; readonly toMs: number }[],
  fromMs: number,
  toMs: number,
): number {
  let covered = 0;
  let reachedMs = fromMs;
  for (const window of [...windows].sort((a, b) => a.fromMs - b.fromMs)) {
    const endMs = Math.min(toMs, window.toMs);
    covered += Math.max(0, endMs - Math.max(reachedMs, window.fromMs));
    reachedMs = Math.max(reachedMs, endMs);
  }
  return covered;
}
