/**
 * What databases do that keep less than they promise. Nothing excludes two holders then; what must
 * hold all the same is that tokens grow, so that the fence can refuse the older one.
 *
 *   lost suffix      a replica takes over that lacks the last writes
 *   restored backup  an old state comes back
 *   early expiry     the database's clock jumps ahead: grants end before their holders' trust
 */
import type { LeaseRecord } from "leasehold/internal";
import type { MemoryLeaseState } from "leasehold/internal/memory";
import type { Machine } from "./machine.js";
import type { World } from "./world.js";

type Records = ReadonlyMap<string, ReadonlyMap<string, LeaseRecord>>;

const SNAPSHOT_EVERY_MS = 100;

export class Weakness {
  readonly #world: World;
  readonly #state: MemoryLeaseState;
  readonly #database: Machine;
  readonly #snapshots: { readonly atMs: number; readonly records: Records }[] = [];

  constructor(world: World, state: MemoryLeaseState, database: Machine) {
    this.#world = world;
    this.#state = state;
    this.#database = database;
    const remember = () => {
      this.#snapshots.push({ atMs: world.nowMs, records: this.#copy() });
      world.after(SNAPSHOT_EVERY_MS, remember);
    };
    remember();
  }

  /** The state of `ageMs` ago comes back, or the oldest one. */
  fallBack(ageMs: number): void {
    const untilMs = this.#world.nowMs - ageMs;
    const found = this.#snapshots.findLast(({ atMs }) => atMs <= untilMs) ?? this.#snapshots[0];
    if (!found) return;
    this.#world.tell(
      "database",
      `is as it was ${Math.round(this.#world.nowMs - found.atMs)} ms ago`,
    );
    for (const [name, { records }] of this.#state.namespaces) {
      records.clear();
      for (const [resource, record] of found.records.get(name) ?? []) records.set(resource, record);
    }
  }

  expireEarly(ms: number): void {
    this.#database.jumpAhead(ms);
  }

  #copy(): Records {
    return new Map(
      [...this.#state.namespaces].map(([name, { records }]) => [name, new Map(records)]),
    );
  }
}
