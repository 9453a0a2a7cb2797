/**
 * What an instance records about a tenant's calls, because stores do not keep it: renewals of each grant,
 * waiters, refused late holders, contended resources, and claims of workers. Each list is bounded and
 * keeps the latest entries. It does not cover calls through other instances or directly to the store.
 */
import type { Clock } from "leasehold";
import type { ClaimRequest } from "leasehold/internal";
import { LONGEST_WAITER_MS, Recent } from "leasehold/internal";
import type { Refusal, Waiter } from "leasehold/internal/wire";
import type { KnownGrant } from "../events/activities.js";
import type { LeaseEvent } from "../lease-calls.js";

/** At least the latest half is kept, so this many grants can be live and renewed in turn. */
const MAX_GRANTS = 20_000;
const MAX_WAITERS = 2_000;
const MAX_REFUSALS = 500;
const MAX_CONTENDED = 2_000;
const MAX_CLAIMERS = 1_000;
/** Fewer claimers are kept if their names and queues are long: a request may have 400 names of 256 bytes. */
const [LONG_CHARACTERS, MAX_LONG] = [2_000, 50];
/** A resource counts as contended for this long after a refused acquire. */
const CONTENDED_MS = 60_000;
/** A worker without a claim for this long, which exceeds a long poll, has stopped. */
const CLAIMER_MS = 120_000;

interface ObservedGrant extends KnownGrant {
  renewals: number;
  /** Null: no response has reported its end yet. */
  ended: "lost" | "released" | null;
}

interface Waiting extends Omit<Waiter, "askedAt"> {
  readonly resource: string;
  readonly askedAtMs: number;
  /** When it stops counting as a waiter unless it polls again, by the monotonic clock. */
  readonly untilMs: number;
}

/** The last claim of a worker for these queues and kinds. */
export interface Claimer extends Pick<ClaimRequest, "holder" | "queues" | "kinds" | "versions"> {
  /** By this instance's clock. */
  readonly at: string;
  /** Whether it waits for a task now. */
  readonly waiting: boolean;
  /** Above 0, the worker is stuck. */
  readonly abandoned: number;
}

interface LastClaim extends Omit<Claimer, "at" | "waiting"> {
  readonly atMs: number;
  /** Number of its open claims. */
  readonly open: number;
}

export class RecentCalls {
  readonly #clock: Clock;
  readonly #sinceMs: number;
  readonly #grants = new Recent<ObservedGrant>(MAX_GRANTS);
  readonly #waiters = new Recent<Waiting>(MAX_WAITERS);
  /** By resource: time of the last refused acquire. */
  readonly #contended = new Recent<number>(MAX_CONTENDED);
  readonly #claimers = new Recent<LastClaim>(MAX_CLAIMERS);
  readonly #longClaimers = new Recent<LastClaim>(MAX_LONG);
  readonly #refusals: Refusal[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#sinceMs = clock.monotonic();
  }

  get forMs(): number {
    return Math.floor(this.#clock.monotonic() - this.#sinceMs);
  }

  grant(grantId: string): Readonly<ObservedGrant> | undefined {
    return this.#grants.get(grantId);
  }

  /**
   * Records an event of a grant or a waiter.
   * @returns false if nothing happened: for a repeated request, and for a release by a mere waiter
   */
  note(event: LeaseEvent): boolean {
    switch (event.type) {
      case "acquired": {
        const { grantId, holder, token } = event;
        this.#waiters.delete(grantId);
        if (this.#grants.has(grantId)) return false;
        this.#grants.set(grantId, { holder, token, renewals: 0, ended: null });
        return true;
      }
      case "renewed": {
        const known = this.#grants.get(event.grantId);
        if (!known) return true;
        known.renewals += 1;
        // Makes it the newest entry: short grants must not displace long ones that are still renewed.
        this.#grants.set(event.grantId, known);
        return true;
      }
      case "held":
        this.#noteHeld(event);
        return true;
      case "notHeld": {
        const waited = this.#waiters.delete(event.grantId);
        const known = this.#grants.get(event.grantId);
        if (waited || !known || known.ended) return false;
        known.ended = "lost";
        return true;
      }
      case "released":
      case "lost": {
        const known = this.#grants.get(event.grantId);
        const isRepeated = event.type === "released" && known?.ended === "released";
        if (known) known.ended = event.type;
        return !isRepeated;
      }
      case "revoked":
      case "failed":
        return true;
    }
  }

  refused(refusal: Refusal): void {
    this.#refusals.push(refusal);
    if (this.#refusals.length > MAX_REFUSALS) this.#refusals.shift();
  }

  /** Latest first. */
  refusals(covers: (resource: string) => boolean, most: number = MAX_REFUSALS): Refusal[] {
    return this.#refusals
      .filter(({ resource }) => covers(resource))
      .slice(-most)
      .reverse();
  }

  /** Whether the contender with this grant id is a known waiter. */
  waits(grantId: string): boolean {
    const waiting = this.#waiters.get(grantId);
    return waiting !== undefined && waiting.untilMs > this.#clock.monotonic();
  }

  /** Numbers of waiters and of recent refusals by resource, without zeros. */
  counts(): { readonly waiters: Counts; readonly refusals: Counts } {
    return {
      waiters: countsOf(this.#live(this.#clock.monotonic())),
      refusals: countsOf(this.#refusals),
    };
  }

  /** Sorted by queue position if the store reports it, then by the time of their first attempt. */
  waiters(resource: string): Waiter[] {
    const nowMs = this.#clock.monotonic();
    return this.#live(nowMs)
      .filter((waiting) => waiting.resource === resource)
      .sort((a, b) => (a.ahead ?? 0) - (b.ahead ?? 0) || a.askedAtMs - b.askedAtMs)
      .map(({ grantId, holder, ahead, askedAtMs }) => ({
        grantId,
        holder,
        ahead,
        askedAt: this.#wallOf(askedAtMs, nowMs),
      }));
  }

  /** Resources contended within the last minute, and current waiters. */
  contended(): { readonly resources: number; readonly waiting: number } {
    const nowMs = this.#clock.monotonic();
    const recent = valuesOf(this.#contended).filter((atMs) => nowMs - atMs <= CONTENDED_MS);
    return { resources: recent.length, waiting: this.#live(nowMs).length };
  }

  /** Records a claim. Call the returned function when it has been answered. */
  claiming({ holder, queues, kinds, versions, abandoned = 0 }: ClaimRequest): () => void {
    // Workers of one process share a name, but not always their queues.
    const name = JSON.stringify([holder, queues, kinds, versions]);
    const claimers = name.length > LONG_CHARACTERS ? this.#longClaimers : this.#claimers;
    const claim = (change: 1 | -1) => {
      const open = Math.max(0, (claimers.get(name)?.open ?? 0) + change);
      const atMs = this.#clock.monotonic();
      claimers.set(name, { holder, queues, kinds, versions, abandoned, atMs, open });
    };
    claim(1);
    return () => claim(-1);
  }

  /** Open and recent claims, latest last. A holder has one for each set of queues and kinds. */
  claimers(): Claimer[] {
    const nowMs = this.#clock.monotonic();
    return [...valuesOf(this.#claimers), ...valuesOf(this.#longClaimers)]
      .filter(({ atMs, open }) => open > 0 || nowMs - atMs <= CLAIMER_MS)
      .sort((a, b) => a.atMs - b.atMs)
      .map(({ open, atMs, ...claim }) => ({
        ...claim,
        at: this.#wallOf(atMs, nowMs),
        waiting: open > 0,
      }));
  }

  #noteHeld({ resource, asked, holder, queueMs, ahead }: Extract<LeaseEvent, { type: "held" }>) {
    const nowMs = this.#clock.monotonic();
    this.#contended.set(resource, nowMs);
    if (queueMs === null) return;
    const before = this.#waiters.get(asked);
    this.#waiters.set(asked, {
      resource,
      grantId: asked,
      holder,
      ahead,
      askedAtMs: before?.askedAtMs ?? nowMs,
      untilMs: nowMs + Math.min(queueMs, LONGEST_WAITER_MS),
    });
  }

  #live(nowMs: number): Waiting[] {
    return valuesOf(this.#waiters).filter(({ untilMs }) => untilMs > nowMs);
  }

  #wallOf(atMs: number, nowMs: number): string {
    return new Date(Math.round(this.#clock.wall() - (nowMs - atMs))).toISOString();
  }
}

type Counts = ReadonlyMap<string, number>;

function countsOf(those: readonly { readonly resource: string }[]): Counts {
  const counts = new Map<string, number>();
  for (const { resource } of those) counts.set(resource, (counts.get(resource) ?? 0) + 1);
  return counts;
}

function valuesOf<T>(recent: Recent<T>): T[] {
  return Array.from(recent.entries(), ([, value]) => value);
}
