/** How long leases and tasks took, by phase, and whether that came back to its level. */
import { type Cycle, type Phase, phaseAt } from "./plan.js";
import type { Probe } from "./processes.js";
import { type Claim, type Seen, tooRare } from "./seen.js";
import { median, quantile } from "./statistics.js";

/** What the load times: leases in load.js, tasks in run.ts. One that is never seen has not come back. */
const PROBE_KINDS: readonly string[] = ["lease", "lease over HTTP", "task", "task over HTTP"];
const FEWEST_PROBES = 20;

/**
 * Without those that met the pauses of the measuring. What began before and lasts is not left out, nor
 * what failed: a pause makes nothing fail.
 */
function undisturbed({ samples, probes }: Seen): readonly Probe[] {
  const windows = samples.map(({ atMs, doneMs }) => [atMs - 100, doneMs + 100] as const);
  let at = 0;
  return [...probes]
    .sort((a, b) => a.startMs - b.startMs)
    .filter(({ startMs, ok }) => {
      while (at < windows.length && windows[at]![1] < startMs) at += 1;
      return !ok || at >= windows.length || startMs < windows[at]![0];
    });
}

/**
 * By when it began; but what the faults of the next cycle met, they may have failed. Only if it began
 * within a ttl before them: with no fault near, what takes longer than that hangs of itself.
 */
function phaseOf({ startMs, tookMs }: Probe, cycles: readonly Cycle[], ttlMs: number) {
  const met = cycles.some(
    ({ beganMs }) => startMs < beganMs && startMs >= beganMs - ttlMs && startMs + tookMs >= beganMs,
  );
  return met ? "faults" : phaseAt(cycles, startMs, ttlMs);
}

/** One that failed took for ever. */
const NEVER_MS = 60_000;

export interface Latency {
  readonly count: number;
  readonly failed: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

type Phased<Each> = Partial<Record<Phase, Each>>;

/** How long each probe took, by its kind and phase. */
function timesOf(seen: Seen): Record<string, Phased<number[]>> {
  const groups: Record<string, Phased<number[]>> = {};
  for (const probe of undisturbed(seen)) {
    const phase = phaseOf(probe, seen.cycles, seen.plan.ttlMs);
    if (!phase) continue;
    const group = (groups[probe.kind] ??= {});
    (group[phase] ??= []).push(probe.ok ? probe.tookMs : NEVER_MS);
  }
  return groups;
}

/** Of each kind of probe in each phase. */
export function latencies(seen: Seen): Record<string, Phased<Latency>> {
  const describe = (all: readonly number[]): Latency => ({
    count: all.length,
    failed: all.filter((tookMs) => tookMs === NEVER_MS).length,
    p50Ms: median(all),
    p99Ms: quantile(all, 0.99),
  });
  return Object.fromEntries(
    Object.entries(timesOf(seen)).map(([kind, phases]) => [
      kind,
      Object.fromEntries(Object.entries(phases).map(([phase, all]) => [phase, describe(all)])),
    ]),
  );
}

/** Machines stand still: for 0.4 s at a time, a few times in six minutes, was seen of a disk. */
const STANDSTILL_MS = 1_000;

/**
 * What must be back is the p99, but never what one standstill alone would decide: of a short run, a
 * second is more than a hundredth of all the time that is looked at.
 */
function tailOf({ cycles, plan }: Seen): number {
  const lookedAtMs = cycles.reduce((total, { faultsEndedMs, endedMs }) => {
    const quietMs = endedMs - faultsEndedMs - plan.ttlMs;
    return total + Math.max(0, Math.min(plan.ttlMs, quietMs));
  }, 0);
  return Math.min(0.99, 1 - STANDSTILL_MS / Math.max(lookedAtMs, 2 * STANDSTILL_MS));
}

/**
 * No probe that began a TTL or more after the last fault may fail. By then no fault has effects left:
 * unreleased grants have expired, and hanging connections were given up after half a TTL. Nor does a single
 * mishap make a probe fail: an acquire waits for an unavailable store, a release tries three times for 5 s
 * each, and an accepted task is done in the end. A probe that fails was refused, or got no answer for
 * longer than any wait for a processor.
 */
export function latencyClaims(seen: Seen): Claim[] {
  const timesByKind = timesOf(seen);
  const tail = tailOf(seen);
  const name = `p${(100 * tail).toFixed(0)}`;
  const kinds = [...new Set([...PROBE_KINDS, ...Object.keys(timesByKind)])];
  return kinds.map((kind) => {
    const { faults = [], recovering = [], after = [], quiet = [] } = timesByKind[kind] ?? {};
    const failed = [...after, ...quiet].filter((tookMs) => tookMs === NEVER_MS).length;
    const level = quantile(quiet, tail);
    const most = Math.max(2 * level, level + 50);
    const enough = Math.min(after.length, quiet.length) >= FEWEST_PROBES;
    const shown = (times: readonly number[]) =>
      times.length > 0 ? `${ms(median(times))} / ${ms(quantile(times, tail))}` : "none";
    return {
      claim: `${kind}: ${name} is back at its level a ttl after the last fault`,
      holds: enough && failed === 0 && quantile(after, tail) <= most,
      figure: enough
        ? `${failed > 0 ? `${failed} failed from then on; ` : ""}p50 / ${name} ${shown(faults)} under faults, ${shown(recovering)} in the ttl after, ${shown(after)} in the next, ${shown(quiet)} when quiet`
        : tooRare(after.length, quiet.length),
      allowed: `${ms(most)}: twice the quiet level of this run or 50 ms more, whichever is more; and none that fails from then on`,
    };
  });
}

const ms = (value: number) => `${value.toFixed(1)} ms`;
