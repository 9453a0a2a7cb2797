/** How long leases and tasks took, by phase, and whether that came back to its level. */
import { type Phase, phaseAt } from "./plan.js";
import type { Probe } from "./processes.js";
import { type Claim, type Seen, tooRare } from "./seen.js";
import { median, quantile } from "./statistics.js";

const FEWEST_PROBES = 20;

/** Without those that met the pauses of the measuring. What began before and lasts is not left out. */
function undisturbed({ samples, probes }: Seen): readonly Probe[] {
  const windows = samples.map(({ atMs, doneMs }) => [atMs - 100, doneMs + 100] as const);
  let at = 0;
  return [...probes]
    .sort((a, b) => a.startMs - b.startMs)
    .filter(({ startMs }) => {
      while (at < windows.length && windows[at]![1] < startMs) at += 1;
      return at >= windows.length || startMs < windows[at]![0];
    });
}

/** One that failed took for ever. */
const NEVER_MS = 60_000;

export interface Latency {
  readonly count: number;
  readonly failed: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

/** Of each kind of probe in each phase. */
export function latencies(seen: Seen): Record<string, Partial<Record<Phase, Latency>>> {
  const groups: Record<string, Partial<Record<Phase, number[]>>> = {};
  for (const { kind, startMs, tookMs, ok } of undisturbed(seen)) {
    const phase = phaseAt(seen.cycles, startMs, seen.plan.ttlMs);
    if (!phase) continue;
    const group = (groups[kind] ??= {});
    (group[phase] ??= []).push(ok ? tookMs : NEVER_MS);
  }
  const describe = (all: readonly number[]): Latency => ({
    count: all.length,
    failed: all.filter((tookMs) => tookMs === NEVER_MS).length,
    p50Ms: median(all),
    p99Ms: quantile(all, 0.99),
  });
  return Object.fromEntries(
    Object.entries(groups).map(([kind, phases]) => [
      kind,
      Object.fromEntries(Object.entries(phases).map(([phase, all]) => [phase, describe(all)])),
    ]),
  );
}

export function latencyClaims(seen: Seen): Claim[] {
  return Object.entries(latencies(seen)).map(([kind, { faults, recovering, after, quiet }]) => {
    const level = quiet?.p99Ms ?? Number.NaN;
    const most = Math.max(2 * level, level + 50);
    const enough = Math.min(after?.count ?? 0, quiet?.count ?? 0) >= FEWEST_PROBES;
    const shown = (latency: Latency | undefined) =>
      latency ? `${ms(latency.p50Ms)} / ${ms(latency.p99Ms)}` : "none";
    return {
      claim: `${kind}: p99 is back at its level a ttl after the last fault`,
      holds: enough && (after?.p99Ms ?? Number.POSITIVE_INFINITY) <= most,
      figure: enough
        ? `p50 / p99 ${shown(faults)} under faults, ${shown(recovering)} in the ttl after, ${shown(after)} in the next, ${shown(quiet)} when quiet`
        : tooRare(after?.count ?? 0, quiet?.count ?? 0),
      allowed: `${ms(most)}: twice the quiet level of this run or 50 ms more, whichever is more`,
    };
  });
}

const ms = (value: number) => `${value.toFixed(1)} ms`;
