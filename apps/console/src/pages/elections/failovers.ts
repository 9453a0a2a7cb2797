import type { Election } from "./elections-query.js";

/** The gaps without a leader between terms; null where none is known. */
export interface Failovers {
  readonly lastMs: number | null;
  readonly medianMs: number | null;
  readonly longestMs: number | null;
}

/** @param terms newest first */
export function failovers(
  terms: readonly Pick<Election["terms"][number], "vacantMs">[],
): Failovers {
  const known = terms.flatMap(({ vacantMs }) => vacantMs ?? []);
  const sorted = known.toSorted((a, b) => a - b);
  return {
    lastMs: terms[0]?.vacantMs ?? null,
    medianMs: sorted[Math.floor((sorted.length - 1) / 2)] ?? null,
    longestMs: sorted.at(-1) ?? null,
  };
}
