/**
 * What an instance has seen of a tenant's leases that no store tells: how often a grant was renewed, who
 * waits, who was refused because its grant was over, where one contends. Bounded: of each the latest are
 * kept. What went through other instances, or straight to the store, is not in it.
 */
import type { Clock } from "leasehold";
import type { ClaimRequest } from "leasehold/internal";
import { queue, Recent } from "leasehold/internal";
import type { Refusal, Waiter } from "leasehold/internal/wire";
import type { KnownGrant } from "../events/activities.js";
import type { LeaseEvent } from "../lease-calls.js";

/** The latest half surely: so many may live at once, and be renewed one after the other. */
const MOST_GRANTS = 20_000;
const MOST_WAITERS = 2_000;
const MOST_REFUSALS = 500;
const MOST_CONTENDED = 2_000;
const MOST_CLAIMERS = 1_000;
/** Of those whose names and queues are many characters, fewer: a request may name 400 of 256. */
const [MANY_CHARACTERS, MOST_WORDY] = [2_000, 50];
/** Who met a holder within this time contends. */
const CONTENDED_MS = 60_000;
/** Who has not claimed for longer than a long poll and some, works no more. */
const CLAIMER_MS = 120_000;

interface ObservedGrant extends KnownGrant {
  renewals: number;
  /** Null: nobody has been told that it is over. */
  ended: "lost" | "released" | null;
}

interface Waiting extends Omit<Waiter, "askedAt"> {
  readonly resource: string;
  readonly askedAtMs: number;
  /** By the monotonic clock: unless it asks again before. */
  readonly untilMs: number;
}

/** The last claim of a worker for these queues and kinds. */
export interface Claimer extends Pick<ClaimRequest, "holder" | "queues" | "kinds"> {
  /** By this instance's clock. */
  readonly at: string;
  /** It waits for a task now. */
  readonly waiting: boolean;
}

interface LastClaim extends Omit<Claimer, "at" | "waiting"> {
  readonly atMs: number;
  /** How many of its claims are not answered yet. */
  readonly open: number;
}

export class RecentCalls {
  readonly #clock: Clock;
  readonly #sinceMs: number;
  readonly #grants = new Recent<ObservedGrant>(MOST_GRANTS);
  readonly #waiters = new Recent<Waiting>(MOST_WAITERS);
  /** By resource: when somebody met its holder. */
  readonly #contended = new Recent<number>(MOST_CONTENDED);
  readonly #claimers = new Recent<LastClaim>(MOST_CLAIMERS);
  readonly #wordy = new Recent<LastClaim>(MOST_WORDY);
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
   * Notes what an event says of grants and waiters.
   * @returns false for what is no news: a repeated request, a release by who only waited
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
        // As the newest: what lasts long must not make room for what comes and goes.
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
    if (this.#refusals.length > MOST_REFUSALS) this.#refusals.shift();
  }

  /** The latest first. */
  refusals(covers: (resource: string) => boolean, most: number = MOST_REFUSALS): Refusal[] {
    return this.#refusals
      .filter(({ resource }) => covers(resource))
      .slice(-most)
      .reverse();
  }

  /** Whether who asked for this grant is known to wait for it. */
  waits(grantId: string): boolean {
    const waiting = this.#waiters.get(grantId);
    return waiting !== undefined && waiting.untilMs > this.#clock.monotonic();
  }

  /** How many wait for each resource now, and were refused of late; of what is not there nobody. */
  counts(): { readonly waiters: Counts; readonly refusals: Counts } {
    return {
      waiters: countsOf(this.#live(this.#clock.monotonic())),
      refusals: countsOf(this.#refusals),
    };
  }

  /** In line, as far as the store says it, then by when they asked. */
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

  /** Now, and within the last minute. */
  contended(): { readonly resources: number; readonly waiting: number } {
    const nowMs = this.#clock.monotonic();
    const recent = valuesOf(this.#contended).filter((atMs) => nowMs - atMs <= CONTENDED_MS);
    return { resources: recent.length, waiting: this.#live(nowMs).length };
  }

  /** A worker asks for tasks; to be called when it has been answered. */
  claiming({ holder, queues, kinds }: ClaimRequest): () => void {
    // Several workers of one process have one name, and each its own queues.
    const name = JSON.stringify([holder, queues, kinds]);
    const claimers = name.length > MANY_CHARACTERS ? this.#wordy : this.#claimers;
    const claim = (change: 1 | -1) => {
      const open = Math.max(0, (claimers.get(name)?.open ?? 0) + change);
      const atMs = this.#clock.monotonic();
      claimers.set(name, { holder, queues, kinds, atMs, open });
    };
    claim(1);
    return () => claim(-1);
  }

  /** What is asked for, or was of late, the latest last: of one holder several where it asks for several. */
  claimers(): Claimer[] {
    const nowMs = this.#clock.monotonic();
    return [...valuesOf(this.#claimers), ...valuesOf(this.#wordy)]
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
      untilMs: nowMs + Math.min(queueMs, queue.LONGEST_TICKET_MS),
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
