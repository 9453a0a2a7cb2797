/**
 * How long what lasts. A cycle is faults and then quiet:
 *
 *   faults ─────────────▶│ recovering │ after │ quiet ──────▶│ faults ...
 *                        │◀─ 1 ttl ──▶│◀ 1 ttl ▶│
 */
export interface Plan {
  readonly totalMs: number;
  readonly cycles: number;
  readonly cycleMs: number;
  /** At the end of each cycle. */
  readonly quietMs: number;
  /** Of every lease. */
  readonly ttlMs: number;
  /** Between two samples. */
  readonly sampleMs: number;
  /** From then on it is judged: pools are full and code is compiled. */
  readonly warmUpMs: number;
  readonly live: number;
  readonly liveOverHttp: number;
  readonly tasksPerSecond: number;
  readonly servedPerSecond: number;
}

export interface PlanOptions {
  readonly hours: number;
  /** Default: of five minutes, and four at least: one to warm up, one in each third of the rest. */
  readonly cycles?: number;
}

const HOUR_MS = 3_600_000;
const LONGEST_CYCLE_MS = 300_000;
const LONGEST_QUIET_MS = 60_000;
const LONGEST_TTL_MS = 10_000;
const [SHORTEST_SAMPLE_MS, LONGEST_SAMPLE_MS] = [1_000, 10_000];

/** The shorter it is, the shorter are cycles and ttl; how much goes on at once stays. */
export function planOf({ hours, cycles }: PlanOptions): Plan {
  const totalMs = hours * HOUR_MS;
  const count = cycles ?? Math.max(4, Math.round(totalMs / LONGEST_CYCLE_MS));
  const cycleMs = totalMs / count;
  const quietMs = Math.min(LONGEST_QUIET_MS, 0.4 * cycleMs);
  return {
    totalMs,
    cycles: count,
    cycleMs,
    quietMs,
    ttlMs: Math.round(Math.min(LONGEST_TTL_MS, quietMs / 4)),
    sampleMs: Math.max(SHORTEST_SAMPLE_MS, Math.min(LONGEST_SAMPLE_MS, totalMs / 60)),
    warmUpMs: cycleMs,
    live: 300,
    liveOverHttp: 20,
    tasksPerSecond: 20,
    servedPerSecond: 4,
  };
}

export type Phase = "faults" | "recovering" | "after" | "quiet";

/** When the faults of a cycle began and ended, and the quiet after them; of Date.now(). */
export interface Cycle {
  readonly beganMs: number;
  readonly faultsEndedMs: number;
  readonly endedMs: number;
}

/** Undefined outside of all cycles. */
export function phaseAt(cycles: readonly Cycle[], atMs: number, ttlMs: number): Phase | undefined {
  const cycle = cycles.find(({ beganMs, endedMs }) => atMs >= beganMs && atMs < endedMs);
  if (!cycle) return undefined;
  const sinceMs = atMs - cycle.faultsEndedMs;
  if (sinceMs < 0) return "faults";
  if (sinceMs < ttlMs) return "recovering";
  return sinceMs < 2 * ttlMs ? "after" : "quiet";
}
