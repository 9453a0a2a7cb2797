/**
 * How many live leases and unfinished tasks a tenant has, for those who may not have any number. The
 * stores are counted at most every few seconds, and what this instance does in between is added up:
 * several instances together may let a few seconds' worth too many in, and count them at the next look.
 */
import type { Clock, LeaseStore } from "leasehold";
import type { TaskStore } from "leasehold/internal";

export type Quota = "leases" | "tasks";

const FRESH_MS = 5_000;
/** What there is no room for by a count of this age is looked for anew: much may have ended since. */
const SHORT_OF_ROOM_MS = 500;
const PAGE = 1_000;

interface Count {
  value: number;
  readonly atMs: number;
}

export class Quotas {
  readonly #clock: Clock;
  readonly #countOf: Readonly<Record<Quota, (namespace: string, most: number) => Promise<number>>>;
  readonly #counts = new Map<string, Count>();
  readonly #counting = new Map<string, Promise<Count>>();

  constructor(clock: Clock, leases: Pick<LeaseStore, "list">, tasks: Pick<TaskStore, "counts">) {
    this.#clock = clock;
    this.#countOf = {
      leases: (namespace, most) => countLive(leases, namespace, most),
      async tasks(namespace) {
        const { pending, running } = await tasks.counts(namespace);
        return pending + running;
      },
    };
  }

  /** How many more there may be; 0 or less: none. Rejects as the store does. */
  async room(
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

  /** Takes room for so many, unless there is less. Rejects as the store does. */
  async take(quota: Quota, namespace: string, more: number, most: number): Promise<boolean> {
    for (const freshMs of [FRESH_MS, SHORT_OF_ROOM_MS]) {
      if ((await this.room(quota, namespace, most, freshMs)) < more) continue;
      // Others may have taken it since that was known.
      const known = this.#counts.get(`${quota}:${namespace}`);
      if (known && most - known.value < more) continue;
      this.note(quota, namespace, more);
      return true;
    }
    return false;
  }

  /** What this instance has added, or taken away. */
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

/** Counts no further than it matters. */
async function countLive(
  leases: Pick<LeaseStore, "list">,
  namespace: string,
  most: number,
): Promise<number> {
  let count = 0;
  let cursor: string | undefined;
  do {
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
