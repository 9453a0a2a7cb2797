/**
 * Live leases and unfinished tasks of tenants with a limit. The stores are counted at most every few
 * seconds, and this instance adds its own changes in between. Several instances together may exceed a
 * limit by a few seconds' worth, until the next count.
 */
import type { Clock, LeaseStore } from "leasehold";
import { nextTurn, type TaskStore } from "leasehold/internal";
import { countAbsent } from "./known-tasks.js";

export type Quota = "leases" | "tasks";

const FRESH_MS = 5_000;
/** Before a refusal, a count older than this is repeated: much may have ended since. */
const SHORT_OF_ROOM_MS = 500;
const PAGE = 1_000;

interface Count {
  value: number;
  readonly atMs: number;
}

export class Quotas {
  readonly #clock: Clock;
  readonly #countOf: Readonly<Record<Quota, (namespace: string, most: number) => Promise<number>>>;
  /** How many of these are no live lease or no task. Counts no further than {@link countAbsent}. */
  readonly #areAbsent: Readonly<
    Record<Quota, (namespace: string, names: readonly string[], most: number) => Promise<number>>
  >;
  readonly #counts = new Map<string, Count>();
  readonly #counting = new Map<string, Promise<Count>>();

  constructor(
    clock: Clock,
    leases: Pick<LeaseStore, "list" | "get">,
    tasks: Pick<TaskStore, "counts" | "list">,
  ) {
    this.#clock = clock;
    this.#areAbsent = {
      async leases(namespace, resources) {
        const last = await leases.get(resources.map((resource) => ({ namespace, resource })));
        return last.filter((view) => view?.state !== "live").length;
      },
      tasks: (namespace, ids, most) => countAbsent(tasks, namespace, ids, most),
    };
    this.#countOf = {
      leases: (namespace, most) => countLive(leases, namespace, most),
      async tasks(namespace) {
        const { pending, running } = await tasks.counts(namespace);
        return pending + running;
      },
    };
  }

  /** The remaining quota; 0 or less: none. Rejects if the store is unavailable. */
  async remaining(
    quota: Quota,
    namespace: string,
    most: number,
    freshMs: number = FRESH_MS,
  ): Promise<number> {
    const key = `${quota}:${namespace}`;
    const known = this.#counts.get(key);
    const isFresh = known && this.#clock.monotonic() - known.atMs < freshMs;
    const { value } = isFresh ? known : await this.#count(key, quota, namespace, most);
    return most - value;
  }

  /**
   * Reserves quota for leases on these resources, or for tasks with these ids (null: a new one); false if
   * less remains than those need that are not there yet. Rejects if the store is unavailable.
   */
  async take(
    quota: Quota,
    namespace: string,
    named: readonly (string | null)[],
    most: number,
  ): Promise<boolean> {
    const wanted = named.length;
    if ((await this.takeUpTo(quota, namespace, wanted, most, wanted)) === wanted) return true;
    const names = named.filter((name) => name !== null);
    const added = wanted - names.length;
    const room = Math.max(0, await this.remaining(quota, namespace, most)) - added;
    if (room < 0 || (await this.#areAbsent[quota](namespace, names, room)) > room) return false;
    this.note(quota, namespace, wanted);
    return true;
  }

  /**
   * Reserves as much of the quota as remains, at most `wanted`; nothing if less than `least` remains. Rejects if the
   * store is unavailable.
   */
  async takeUpTo(
    quota: Quota,
    namespace: string,
    wanted: number,
    most: number,
    least = 1,
  ): Promise<number> {
    let room = 0;
    for (const freshMs of [FRESH_MS, SHORT_OF_ROOM_MS]) {
      room = await this.remaining(quota, namespace, most, freshMs);
      // Other requests may have reserved it during the count.
      const known = this.#counts.get(`${quota}:${namespace}`);
      if (known) room = most - known.value;
      if (room >= wanted) break;
    }
    const reserved = room >= least ? Math.min(room, wanted) : 0;
    this.note(quota, namespace, reserved);
    return reserved;
  }

  /** Whether changes of a tenant are noted: it has a limit, and was counted. */
  counts(quota: Quota, namespace: string): boolean {
    return this.#counts.has(`${quota}:${namespace}`);
  }

  /** Adds a change that this instance made. */
  note(quota: Quota, namespace: string, change: number): void {
    const known = this.#counts.get(`${quota}:${namespace}`);
    if (known) known.value += change;
  }

  #count(key: string, quota: Quota, namespace: string, most: number): Promise<Count> {
    let counting = this.#counting.get(key);
    if (!counting) {
      const atMs = this.#clock.monotonic();
      counting = this.#countOf[quota](namespace, most)
        .then((value) => {
          const count = { value, atMs };
          this.#counts.set(key, count);
          return count;
        })
        .finally(() => this.#counting.delete(key));
      this.#counting.set(key, counting);
    }
    return counting;
  }
}

/** Stops counting at the limit. */
async function countLive(
  leases: Pick<LeaseStore, "list">,
  namespace: string,
  most: number,
): Promise<number> {
  let count = 0;
  let cursor: string | undefined;
  do {
    // A store in this process does not yield by itself.
    if (cursor !== undefined) await nextTurn();
    const page = await leases.list({
      namespace,
      states: ["live"],
      limit: PAGE,
      ...(cursor !== undefined && { cursor }),
    });
    count += page.items.length;
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined && count < most);
  return count;
}
