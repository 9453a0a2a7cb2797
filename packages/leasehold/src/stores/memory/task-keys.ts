/** The unfinished tasks with a concurrency key, in memory. */
import { hasPlace, headOfKey, type KeyTasks } from "../../tasks/keys.js";
import type { Concurrency } from "../../tasks/port.js";
import type { TaskRecord } from "../../tasks/record.js";
import { SortedList } from "./sorted-list.js";
import { Lanes } from "./task-lanes.js";

/** The tasks of one key: `firstDue` is that of {@link Lanes}, by the rules of keys. */
class KeyLane {
  readonly #pending = new SortedList<TaskRecord>((a, b) => a.seq - b.seq);
  readonly #inClaimOrder = new Lanes();
  readonly #running = new Set<TaskRecord>();

  get hasPending(): boolean {
    return this.#pending.length > 0;
  }
  get isEmpty(): boolean {
    return !this.hasPending && this.#running.size === 0;
  }

  add(record: TaskRecord): void {
    if (record.state === "running") this.#running.add(record);
    else {
      this.#pending.add(record);
      this.#inClaimOrder.add(record);
    }
  }

  delete(record: TaskRecord): void {
    if (this.#running.delete(record)) return;
    this.#pending.delete(record);
    this.#inClaimOrder.delete(record);
  }

  firstDue(nowMs: number): TaskRecord | null {
    const [newest] = this.#pending.backFrom();
    const declared = newest?.concurrency;
    if (!declared) return null;
    const tasks: KeyTasks = { pending: this.#pending.from(), running: this.#running, declared };
    if (!hasPlace(tasks, nowMs)) return null;
    if (declared.order === "any") return this.#inClaimOrder.firstDue(nowMs);
    return headOfKey(tasks, nowMs);
  }

  dueBy(atMs: number): Generator<TaskRecord, void, void> {
    return this.#inClaimOrder.dueBy(atMs);
  }
}

export type Keyed = TaskRecord & { readonly concurrency: Concurrency };

export function isKeyed(record: TaskRecord): record is Keyed {
  return record.concurrency !== undefined;
}

/** All keys of a namespace. */
export class KeyLanes {
  /** By queue, kind and key: only keys with unfinished tasks. */
  readonly #queues = new Map<string, Map<string, Map<string, KeyLane>>>();

  add(record: Keyed): void {
    const { queue, kind, concurrency } = record;
    const kinds = entry(this.#queues, queue, () => new Map<string, Map<string, KeyLane>>());
    const keys = entry(kinds, kind, () => new Map<string, KeyLane>());
    entry(keys, concurrency.key, () => new KeyLane()).add(record);
  }

  delete(record: Keyed): void {
    const { queue, kind, concurrency } = record;
    const kinds = this.#queues.get(queue);
    const keys = kinds?.get(kind);
    const lane = keys?.get(concurrency.key);
    lane?.delete(record);
    if (!lane?.isEmpty) return;
    keys?.delete(concurrency.key);
    if (keys?.size === 0) kinds?.delete(kind);
    if (kinds?.size === 0) this.#queues.delete(queue);
  }

  /** Whether another task of the key waits. */
  hasPending({ queue, kind, concurrency }: Keyed): boolean {
    return this.#queues.get(queue)?.get(kind)?.get(concurrency.key)?.hasPending ?? false;
  }

  /**
   * The keys of a queue.
   * @param kinds null: of all kinds
   */
  *of(queue: string, kinds: ReadonlySet<string> | null): Generator<KeyLane, void, void> {
    const known = this.#queues.get(queue);
    for (const kind of (known && (kinds ?? known.keys())) ?? []) {
      yield* known?.get(kind)?.values() ?? [];
    }
  }

  /** Every pending task that was due by then. */
  *dueBy(atMs: number): Generator<TaskRecord, void, void> {
    for (const queue of this.#queues.keys()) {
      for (const lane of this.of(queue, null)) yield* lane.dueBy(atMs);
    }
  }
}

function entry<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}
