/**
 * The records of tenants with a limit: leases and tasks, ended ones included. A limit of live leases alone would
 * not bound them, because a lease that is released leaves a record for a week, and a task stays until it is
 * deleted.
 *
 * Counting reads all of a tenant's records, so no request waits for it: until the first count, all are admitted.
 * Between counts, which are a minute apart or more, this instance adds its own changes.
 */
import type { Clock, LeaseStore } from "leasehold";
import { nextTurn, type TaskStore } from "leasehold/internal";
import { countAbsent } from "./known-tasks.js";
import type { Quota } from "./quotas.js";

/** Enough for tenants with a small limit that choose a new name for each lease. */
const LEAST_LIMIT = 10_000;
const FRESH_MS = 60_000;
/** A tenant without room is counted anew after this time: much may have been deleted since. */
const SHORT_OF_ROOM_MS = 10_000;
/** Counting uses at most one part in so many of the time. */
const SHARE_OF_TIME = 20;
const PAGE = 1_000;

/** The most records for a limit of live leases or unfinished tasks; null: unlimited. */
export function mostRecords(limit: number | null, perOne: number | null): number | null {
  return limit === null || perOne === null ? null : Math.max(LEAST_LIMIT, limit * perOne);
}

interface Count {
  value: number;
  /** When it was made, and how long that took. */
  readonly atMs: number;
  readonly tookMs: number;
}

export class Records {
  readonly #clock: Clock;
  readonly #leases: Pick<LeaseStore, "list" | "get">;
  readonly #tasks: Pick<TaskStore, "counts" | "list">;
  readonly #counts = new Map<string, Count>();
  /** Counts that are being made, with the changes meanwhile. */
  readonly #counting = new Map<string, { changes: number }>();

  constructor(
    clock: Clock,
    leases: Pick<LeaseStore, "list" | "get">,
    tasks: Pick<TaskStore, "counts" | "list">,
  ) {
    this.#clock = clock;
    this.#leases = leases;
    this.#tasks = tasks;
  }

  /**
   * Reserves room for records of leases on these resources, or of tasks with these ids (null: a new one); false
   * if there is less than those need that have no record. Rejects if the store is unavailable.
   */
  async take(
    quota: Quota,
    namespace: string,
    named: readonly (string | null)[],
    most: number,
  ): Promise<boolean> {
    const known = this.#counts.get(`${quota}:${namespace}`);
    const room = known ? Math.max(0, most - known.value) : Infinity;
    const isShort = room < named.length;
    this.#countIfOld(quota, namespace, most, known, isShort ? SHORT_OF_ROOM_MS : FRESH_MS);
    if (isShort && (await this.#absent(quota, namespace, named, room)) > room) return false;
    this.note(quota, namespace, named.length);
    return true;
  }

  /** Adds a change that this instance made. */
  note(quota: Quota, namespace: string, change: number): void {
    const key = `${quota}:${namespace}`;
    const known = this.#counts.get(key);
    if (known) known.value += change;
    const counting = this.#counting.get(key);
    if (counting) counting.changes += change;
  }

  #countIfOld(
    quota: Quota,
    namespace: string,
    most: number,
    known: Count | undefined,
    freshMs: number,
  ): void {
    const key = `${quota}:${namespace}`;
    const sinceMs = this.#clock.monotonic();
    if (known && sinceMs - known.atMs < Math.max(freshMs, SHARE_OF_TIME * known.tookMs)) return;
    if (this.#counting.has(key)) return;
    const counting = { changes: 0 };
    this.#counting.set(key, counting);
    const count =
      quota === "leases" ? this.#countLeases(namespace, most) : this.#countTasks(namespace);
    count
      .then((value) => {
        const atMs = this.#clock.monotonic();
        // Some of the changes may be counted twice, until the next count.
        const sum = value + counting.changes;
        this.#counts.set(key, { value: sum, atMs, tookMs: atMs - sinceMs });
      })
      // The next request tries again.
      .catch(() => {})
      .finally(() => this.#counting.delete(key));
  }

  /** Stops at the limit. */
  async #countLeases(namespace: string, most: number): Promise<number> {
    let count = 0;
    let cursor: string | null = null;
    do {
      // A store in this process does not yield by itself.
      if (cursor !== null) await nextTurn();
      const after: { cursor?: string } = cursor === null ? {} : { cursor };
      const page = await this.#leases.list({ namespace, limit: PAGE, ...after });
      count += page.items.length;
      cursor = page.nextCursor;
    } while (cursor !== null && count < most);
    return count;
  }

  async #countTasks(namespace: string): Promise<number> {
    const counts = Object.values(await this.#tasks.counts(namespace));
    return counts.reduce((sum, count) => sum + count, 0);
  }

  /** How many of these have no record. Counts no further than {@link countAbsent}. */
  async #absent(
    quota: Quota,
    namespace: string,
    named: readonly (string | null)[],
    room: number,
  ): Promise<number> {
    const names = named.filter((name) => name !== null);
    if (quota === "leases") {
      const views = await this.#leases.get(names.map((resource) => ({ namespace, resource })));
      return views.filter((view) => view === null).length;
    }
    const added = named.length - names.length;
    return added + (await countAbsent(this.#tasks, namespace, names, room - added));
  }
}
