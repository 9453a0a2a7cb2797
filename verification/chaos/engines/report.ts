/** What a run has shown, in figures, and whether that is what must hold. */
import {
  checkTokens,
  checkWrites,
  countExpiries,
  countStaleTaken,
  findOverlaps,
  findTakeovers,
  isMarked,
  type Takeover,
} from "./checks.js";
import type { Breach } from "./registers.js";
import type { Ran } from "./run.js";
import type { StoreSettings } from "./site.js";
import type { StoreName } from "./store-names.js";

/** In milliseconds. */
export interface Takeovers {
  readonly count: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
  /** The promised maximum: the life of a grant plus the engine's epsilon. */
  readonly bound: number;
  /** Takeovers beyond the bound by no more than the promised time per dead waiter ahead of them. */
  readonly behindDeadWaiters: number;
  readonly overdue: readonly Takeover[];
  /** Holders lost while the engine elected its own leader. No bound applies to them. */
  readonly unsteady: number;
}

export interface StoreReport {
  readonly store: StoreName;
  readonly version: string;
  readonly seconds: number;
  readonly ttlMs: number;
  /** From a last renewal to the end of a dead holder's grant: the ttl, or the session's timeout. */
  readonly lifeMs: number;
  readonly epsilonMs: number;
  /** How often, by kind. */
  readonly faults: Readonly<Record<string, number>>;
  /** Kinds that cannot happen on this machine, and why. */
  readonly skipped: Readonly<Record<string, string>>;
  readonly grants: number;
  /** Records of all grants of one resource each, checked for overlaps and the order of their tokens. */
  readonly histories: number;
  readonly writes: number;
  readonly expiries: number;
  readonly staleRefused: number;
  readonly unfencedViolations: number;
  readonly fencedViolations: number;
  readonly pausesPastTtl: number;
  /** Holders that trusted a lease when a successor had been granted it, or had written. */
  readonly breaches: readonly Breach[];
  /** The same where a clock was wrong beyond what is assumed of clocks: there only the fence protects. */
  readonly breachesOfWrongClocks: number;
  readonly takeovers: Takeovers;
  readonly herd: { readonly waiters: number; readonly served: number; readonly gaveUp: number };
  /** From the end of all faults until each resource had been granted anew, at most. */
  readonly livenessMs: number;
  /** Of what ran beside the holders. */
  readonly beside: Readonly<Record<string, number>>;
  /** For how long this process, which makes the faults and is the network, did not get to run. */
  readonly stallsMs: { readonly p99: number; readonly max: number };
  /** What is wrong. */
  readonly complaints: readonly string[];
  /** What happened too rarely to prove anything. */
  readonly tooRare: readonly string[];
}

/** From the loss of a holder to the next grant, on a store whose leases last for a second. */
const TAKEOVER_MS = 2_000;

type Counted =
  | "faults"
  | "pausesPastTtl"
  | "takeovers"
  | "expiries"
  | "staleRefused"
  | "unfencedViolations";

/**
 * What must happen in a run of `ms`, or it proves nothing. The times of the engine decide: a session outlives the TTL of its
 * leases, and with it the takeover of what a dead holder had, but not the pauses of a holder that comes back.
 */
export function leastOf(
  ms: number,
  { ttlMs, lifeMs, epsilonMs }: Pick<StoreSettings, "ttlMs" | "lifeMs" | "epsilonMs">,
): Readonly<Record<Counted, number>> {
  const minutes = ms / 60_000;
  // Faults come in steps of a fraction of the TTL: so many times as on a store whose leases last for a second.
  const byTtl = (minutes * 1_000) / ttlMs;
  // In a calm, one holder is lost at a time, and the next one when its resources are taken over.
  const byTakeover = (minutes * TAKEOVER_MS) / (lifeMs + epsilonMs);
  const [pausesPastTtl, takeovers] = [4 * byTtl, 4 * byTakeover];
  const least = (number: number) => Math.max(1, Math.floor(number));
  return {
    faults: least(12 * byTtl),
    pausesPastTtl: least(pausesPastTtl),
    takeovers: least(takeovers),
    // A grant expires when its holder has died, or is paused for longer than its TTL.
    expiries: least(takeovers + pausesPastTtl),
    // A write is stale only after a takeover.
    staleRefused: least(2 * byTakeover),
    unfencedViolations: least(2 * byTakeover),
  };
}

export function report(ran: Ran, ms: number, stallsMs: StoreReport["stallsMs"]): StoreReport {
  const { site, seconds, livenessMs, beside } = ran;
  const { ttlMs, lifeMs, epsilonMs, name } = site.settings;
  const { journal, registers, unexpected } = site.witness;
  const { writes, refused: staleRefused, unfencedViolations } = registers;
  const fencedViolations = countStaleTaken(site.witness);
  const all = [...registers.breaches, ...findOverlaps(journal)];
  const breaches = all.filter((breach) => !isMarked(site.marks, breach));
  const takeovers = summed(findTakeovers(site), lifeMs + epsilonMs, site.unsteady);
  const faults = Object.fromEntries([...ran.faults].sort(([a], [b]) => a.localeCompare(b)));
  const { pausesPastTtl } = site;
  const figures = {
    grants: journal.grants.size,
    writes,
    expiries: countExpiries(journal),
    staleRefused,
    unfencedViolations,
    fencedViolations,
    pausesPastTtl,
    histories: journal.byResource.size,
  };
  return {
    store: name,
    version: site.engine.version,
    seconds,
    ttlMs,
    lifeMs,
    epsilonMs,
    faults,
    skipped: Object.fromEntries(ran.skipped),
    ...figures,
    breaches,
    takeovers,
    breachesOfWrongClocks: all.length - breaches.length,
    herd: site.herd,
    livenessMs: Math.round(livenessMs),
    beside,
    stallsMs,
    complaints: [
      ...(fencedViolations > 0 ? [`the fence let ${fencedViolations} stale writes pass`] : []),
      ...breaches.map(({ by, token, resource, what }) => `${by}, ${token} of ${resource}: ${what}`),
      ...takeovers.overdue.map(
        ({ resource, kind, ms, calmMs }) =>
          `${resource} was taken over after ${Math.round(ms)} ms, more than ${takeovers.bound}: ${kind}, after ${Math.round(calmMs)} ms of calm`,
      ),
      ...checkTokens(journal),
      ...checkWrites(site),
      ...site.complaints,
      ...unexpected,
      ...site.slots.flatMap(({ ends }) => ends),
    ],
    tooRare: tooRare(
      {
        ...figures,
        faults: [...ran.faults.values()].reduce((sum, count) => sum + count, 0),
        takeovers: takeovers.count,
      },
      leastOf(ms, site.settings),
    ),
  };
}

function tooRare(
  figures: Readonly<Record<Counted, number>>,
  least: Readonly<Record<Counted, number>>,
) {
  return Object.entries(least).flatMap(([name, number]) => {
    const count = figures[name as Counted];
    return count >= number ? [] : [`${name}: ${count}, of ${number} at least`];
  });
}

function summed(takeovers: readonly Takeover[], bound: number, unsteady: number): Takeovers {
  const sorted = takeovers.map(({ ms }) => ms).sort((a, b) => a - b);
  const late = takeovers.filter(({ ms }) => ms > bound);
  const overdue = late.filter(({ ms, deadWaitersMs }) => ms > bound + deadWaitersMs);
  const at = (share: number) =>
    Math.round(sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? 0);
  return {
    count: sorted.length,
    p50: at(0.5),
    p99: at(0.99),
    max: at(1),
    bound,
    behindDeadWaiters: late.length - overdue.length,
    overdue,
    unsteady,
  };
}
