/**
 * Recommends a TTL: long enough that a healthy program keeps its lease.
 *
 *   │◀── a third: renewal ──▶│◀──────────── two thirds: all of this must fit in ────────────▶│
 *   granted                  pause of the process, the renewal's round trip, drift, margin    expires
 *
 * One renewal must succeed after the longest usual pause, so the minimum is: ttl > pause + renewal +
 * margin. Three times the minimum survives two failed renewals in a row. The recommendation is at least that, and
 * follows the rule of docs/learn/choosing-a-ttl.md: a pause may begin just before a renewal, and a renewal may fail.
 */

/** The library's defaults: see AcquireOptions. */
const MARGIN_MS = 10;
const DRIFT_RATIO = 0.01;
/** 1 / (0.99 - 1.1 / 3), rounded up: a renewal comes up to 10% later than a third of the TTL. */
export const RULE_FACTOR = 1.61;
/** With a shorter TTL, every network delay costs a lease. */
const SHORTEST_ADVISED_MS = 1_000;

export interface Summary {
  readonly count: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

/** @param samples at least one */
export function summaryOf(samples: readonly number[]): Summary {
  const sorted = samples.toSorted((a, b) => a - b);
  const at = (share: number) =>
    rounded(sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0);
  return { count: sorted.length, p50Ms: at(0.5), p99Ms: at(0.99), maxMs: at(1) };
}

function rounded(ms: number): number {
  return Math.round(ms * 100) / 100;
}

export interface TtlAdvice {
  readonly pauseMs: number;
  readonly renewalMs: number;
  readonly marginMs: number;
  /** A shorter TTL loses healthy leases. */
  readonly leastMs: number;
  /** By the rule: a pause may begin just before a renewal, and the renewal after it may fail once. */
  readonly ruleMs: number;
  readonly advisedMs: number;
}

/** @param limits the TTLs that the store grants */
export function adviseTtl(
  pauseMs: number,
  renewalMs: number,
  limits: { readonly minMs: number; readonly maxMs: number },
): TtlAdvice {
  const leastMs = Math.ceil((pauseMs + renewalMs + MARGIN_MS) / (1 - DRIFT_RATIO));
  const ruleMs = Math.ceil((pauseMs + 2 * renewalMs + MARGIN_MS) * RULE_FACTOR);
  const wanted = Math.max(3 * leastMs, ruleMs, SHORTEST_ADVISED_MS, limits.minMs);
  const advisedMs = Math.min(roundUp(wanted), limits.maxMs);
  return { pauseMs, renewalMs, marginMs: MARGIN_MS, leastMs, ruleMs, advisedMs };
}

/** Rounds up to 1, 2, 3 or 5 times a power of ten. */
function roundUp(ms: number): number {
  const power = 10 ** Math.floor(Math.log10(ms));
  const digit = [1, 2, 3, 5, 10].find((step) => step * power >= ms) ?? 10;
  return digit * power;
}
