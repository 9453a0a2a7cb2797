/**
 * What a tenant may keep in the stores: live leases and unfinished tasks, and the records of both, ended ones included. A
 * lease that is released leaves a record for a week, and a task stays until it is deleted, so that a limit of those
 * that are live would not bound them.
 *
 *              counted anew        at the limit     the request waits for the count
 *   live       after 5 s           after 500 ms     yes
 *   records    after a minute      after 10 s       no: counting reads all of them, and until then all are admitted
 *
 * Counting takes a twentieth of the time at most. In between, each instance adds its own changes, so that several together
 * may exceed a limit by as much as they add until the next count.
 */
import type { Clock, Env, LeaseStore } from "leasehold";
import { nextTurn, type TaskStore } from "leasehold/internal";
import { Buckets } from "../limits/buckets.js";
import type { ServerLimits } from "../limits/limits.js";
import { type ProblemError, tooMany } from "../problems.js";
import { Sampler } from "../sampler.js";
import { countAbsent } from "./known-tasks.js";
import type { TenantsLimits } from "./tenants-limits.js";

export type Quota = "leases" | "tasks";
type Kind = "live" | "records";

const RULES = {
  live: { freshMs: 5_000, shortMs: 500, waits: true },
  records: { freshMs: 60_000, shortMs: 10_000, waits: false },
} as const;
const SHARE_OF_TIME = 20;
/** Enough records for tenants with a small limit that choose a new name for each lease. */
const LEAST_RECORDS = 10_000;
const PAGE = 1_000;
const HOUR_S = 3_600;
const LOG_EVERY_MS = 60_000;

/** Why there is no room for another record. */
const NO_RECORDS: Readonly<Record<Quota, string>> = {
  leases:
    "this tenant has too many lease records, ended ones included: use the names of resources again, or wait until records are collected, a week after their end",
  tasks: "this tenant has too many tasks, ended ones included: delete ended ones",
};

interface Ports {
  readonly leases: Pick<LeaseStore, "list" | "get">;
  readonly tasks: Pick<TaskStore, "counts" | "list">;
}

/** Runs a read of the store in the time that its caller has. */
export type Read = <T>(read: () => Promise<T>) => Promise<T>;

/** What is to be added. Null: a new one, whose name is not known. */
type Named = readonly (string | null)[];

export class Quotas {
  readonly #clock: Clock;
  readonly #ports: Ports;
  readonly #server: Pick<ServerLimits, "recordsPerLease" | "recordsPerTask">;
  readonly #tenantsLimits: Pick<TenantsLimits, "of">;
  readonly #tallies = new Map<string, Tally>();
  /** The most lease records of tenants that have a limit of them, as last read: the history waits for no read. */
  readonly #mostRecords = new Map<string, number>();
  readonly #history: Buckets;
  readonly #leftOut: Sampler;

  constructor(
    { clock, logger }: Pick<Env, "clock" | "logger">,
    ports: Ports,
    server: Pick<ServerLimits, "recordsPerLease" | "recordsPerTask">,
    tenantsLimits: Pick<TenantsLimits, "of">,
  ) {
    this.#clock = clock;
    this.#ports = ports;
    this.#server = server;
    this.#tenantsLimits = tenantsLimits;
    this.#history = new Buckets(clock);
    this.#leftOut = new Sampler(clock, { most: 0, everyMs: LOG_EVERY_MS }, (leftOut) => {
      const fields = { event: "history_left_out", leftOut };
      logger.warn(fields, "tenants replace more grants than their limit allows in the history");
    });
  }

  /**
   * Reserves room for leases on these resources, or for tasks with these ids, and for their records. At the limit, those
   * that are there already have room.
   * @returns why there is none; null: it is reserved
   */
  async reserve(
    namespace: string,
    quota: Quota,
    named: Named,
    read: Read,
  ): Promise<ProblemError | null> {
    const { live, records } = await this.#mostOf(namespace, quota);
    if (live === null) return null;
    const isFree = await read(() => this.#take("live", quota, namespace, named, live));
    if (!isFree) return limitReached(quota, live);
    if (records === null) return null;
    let hasRecords = false;
    try {
      hasRecords = await read(() => this.#take("records", quota, namespace, named, records));
    } finally {
      if (!hasRecords) this.note(quota, namespace, { live: -named.length });
    }
    if (hasRecords) return null;
    return tooMany("quota", `${NO_RECORDS[quota]}; it may have ${records}`, 60_000);
  }

  /**
   * Reserves as much of what may be live as remains, at most `wanted`.
   * @throws LIMIT_REACHED if none remains, unless none is wanted
   */
  async reserveUpTo(namespace: string, quota: Quota, wanted: number, read: Read): Promise<number> {
    const { live } = await this.#mostOf(namespace, quota);
    if (live === null || wanted === 0) return wanted;
    const reserved = await read(() => this.#takeUpTo(quota, namespace, wanted, live, 1));
    if (reserved === 0) throw limitReached(quota, live);
    return reserved;
  }

  /** Reserves so much of what may be live; nothing, and false, if less remains. */
  async tryReserve(namespace: string, quota: Quota, wanted: number, read: Read): Promise<boolean> {
    const { live } = await this.#mostOf(namespace, quota);
    if (live === null || wanted === 0) return true;
    const take = () => this.#takeUpTo(quota, namespace, wanted, live, wanted);
    return (await read(take)) === wanted;
  }

  /** Whether changes of a tenant are noted: it has a limit, and was counted. */
  counts(quota: Quota, namespace: string): boolean {
    return this.#tallies.get(`live ${quota} ${namespace}`)?.isCounted === true;
  }

  /** Adds changes that this instance made. */
  note(quota: Quota, namespace: string, change: { live?: number; records?: number }): void {
    this.#tallies.get(`live ${quota} ${namespace}`)?.note(change.live ?? 0);
    this.#tallies.get(`records ${quota} ${namespace}`)?.note(change.records ?? 0);
  }

  /**
   * Whether the history may have another replaced grant, which it keeps for a week: of a tenant with a limit as many at once
   * as it may have lease records, and as many again each hour. Otherwise a tenant could fill the database with a single
   * resource. The history is for people, so the others are left out of it.
   */
  takeHistory(namespace: string): boolean {
    const most = this.#mostRecords.get(namespace);
    if (most === undefined) return true;
    if (this.#history.take(namespace, { perSecond: most / HOUR_S, most }) === 0) return true;
    this.#leftOut.admits();
    return false;
  }

  async #mostOf(
    namespace: string,
    quota: Quota,
  ): Promise<{ readonly live: number | null; readonly records: number | null }> {
    const live = (await this.#tenantsLimits.of(namespace))[quota];
    const { recordsPerLease, recordsPerTask } = this.#server;
    const perOne = quota === "leases" ? recordsPerLease : recordsPerTask;
    const hasRecords = live !== null && perOne !== null;
    const records = hasRecords ? Math.max(LEAST_RECORDS, live * perOne) : null;
    if (quota === "leases") {
      if (records === null) this.#mostRecords.delete(namespace);
      else this.#mostRecords.set(namespace, records);
    }
    return { live, records };
  }

  /** @param least nothing is taken if less remains */
  async #takeUpTo(
    quota: Quota,
    namespace: string,
    wanted: number,
    most: number,
    least: number,
  ): Promise<number> {
    const tally = await this.#counted("live", quota, namespace, wanted, most);
    // In one go: others reserve as well.
    const room = tally.roomIn(most);
    const taken = room >= least ? Math.min(room, wanted) : 0;
    this.note(quota, namespace, { live: taken });
    return taken;
  }

  async #take(
    kind: Kind,
    quota: Quota,
    namespace: string,
    named: Named,
    most: number,
  ): Promise<boolean> {
    const tally = await this.#counted(kind, quota, namespace, named.length, most);
    if (tally.roomIn(most) < named.length) {
      const names = named.filter((name) => name !== null);
      const left = tally.roomIn(most) - (named.length - names.length);
      if (left < 0 || (await this.#absent(kind, quota, namespace, names, left)) > left)
        return false;
    }
    this.note(quota, namespace, { [kind]: named.length });
    return true;
  }

  /** The count, which is new enough to say that there is no room for so many. */
  async #counted(
    kind: Kind,
    quota: Quota,
    namespace: string,
    wanted: number,
    most: number,
  ): Promise<Tally> {
    const key = `${kind} ${quota} ${namespace}`;
    const tally =
      this.#tallies.get(key) ??
      new Tally(this.#clock, (limit) => this.#count(kind, quota, namespace, limit));
    this.#tallies.set(key, tally);
    const { freshMs, shortMs, waits } = RULES[kind];
    // Before a refusal, much may have ended since the last count.
    for (const ageMs of [freshMs, shortMs]) {
      const counted = tally.refresh(ageMs, most);
      if (waits) await counted;
      // The next request tries again.
      else counted?.catch(() => {});
      if (tally.roomIn(most) >= wanted) break;
    }
    return tally;
  }

  /** @param most where the count may stop */
  async #count(kind: Kind, quota: Quota, namespace: string, most: number): Promise<number> {
    const { leases, tasks } = this.#ports;
    if (quota === "tasks") {
      const counts = await tasks.counts(namespace);
      if (kind === "live") return counts.pending + counts.running;
      return Object.values(counts).reduce((sum, count) => sum + count, 0);
    }
    const states = kind === "live" ? { states: ["live"] as const } : {};
    let count = 0;
    let cursor: string | null = null;
    do {
      // A store in this process does not yield by itself.
      if (cursor !== null) await nextTurn();
      const after: { cursor?: string } = cursor === null ? {} : { cursor };
      const page = await leases.list({ namespace, limit: PAGE, ...states, ...after });
      count += page.items.length;
      cursor = page.nextCursor;
    } while (cursor !== null && count < most);
    return count;
  }

  /** How many of these are no live lease, or have no record. Counts tasks no further than {@link countAbsent}. */
  async #absent(
    kind: Kind,
    quota: Quota,
    namespace: string,
    names: readonly string[],
    most: number,
  ): Promise<number> {
    const { leases, tasks } = this.#ports;
    if (quota === "tasks") return countAbsent(tasks, namespace, names, most);
    const views = await leases.get(names.map((resource) => ({ namespace, resource })));
    const isThere = (view: (typeof views)[number]) =>
      kind === "live" ? view?.state === "live" : view !== null;
    return views.filter((view) => !isThere(view)).length;
  }
}

/** A count of the store, and what this instance has changed since. */
class Tally {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #count: (most: number) => Promise<number>;
  #value: number | undefined;
  #atMs = 0;
  #tookMs = 0;
  #counting: Promise<void> | undefined;
  /** Since the last count began. */
  #changes = 0;

  constructor(clock: Pick<Clock, "monotonic">, count: (most: number) => Promise<number>) {
    this.#clock = clock;
    this.#count = count;
  }

  get isCounted(): boolean {
    return this.#value !== undefined;
  }

  /** All of it before the first count. */
  roomIn(most: number): number {
    return Math.max(0, most - (this.#value ?? 0));
  }

  note(change: number): void {
    if (this.#value !== undefined) this.#value += change;
    this.#changes += change;
  }

  /** Begins or joins a count, unless the last one is younger than this. */
  refresh(ageMs: number, most: number): Promise<void> | undefined {
    const passedMs = this.#clock.monotonic() - this.#atMs;
    if (this.isCounted && passedMs < Math.max(ageMs, SHARE_OF_TIME * this.#tookMs))
      return undefined;
    this.#counting ??= this.#countAnew(most).finally(() => {
      this.#counting = undefined;
    });
    return this.#counting;
  }

  async #countAnew(most: number): Promise<void> {
    const sinceMs = this.#clock.monotonic();
    this.#changes = 0;
    const value = await this.#count(most);
    this.#atMs = this.#clock.monotonic();
    this.#tookMs = this.#atMs - sinceMs;
    // Some of what was added may be counted twice, until the next count; of what was taken away, nothing is.
    this.#value = value + Math.max(0, this.#changes);
  }
}

function limitReached(quota: Quota, most: number): ProblemError {
  return tooMany("quota", `a tenant may have at most ${most} ${quota} at once`, 5_000);
}
