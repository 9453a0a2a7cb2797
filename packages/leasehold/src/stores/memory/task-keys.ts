/** The unfinished tasks with a concurrency key, in memory. */
import {
  type BlockedKey,
  type BlockedKeysQuery,
  type BlockingTask,
  COUNTED_OF_KEY,
  NAMED_OF_KEY,
} from "../../tasks/blocked-keys.js";
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

  /** Null if no task of the key waits for another one. */
  blocked(nowMs: number): Omit<BlockedKey, "queue" | "kind"> | null {
    const [newest] = this.#pending.backFrom();
    const declared = newest?.concurrency;
    if (!declared) return null;
    const running = [...this.#running].sort((a, b) => a.seq - b.seq);
    const tasks: KeyTasks = { pending: this.#pending.from(), running, declared };
    const inOrder = declared.order === "fifo";
    const isStuck = inOrder && running.some(({ last }) => (last?.expiresAtMs ?? 0) <= nowMs);
    const head = inOrder ? headThatWaits(this.#pending.from(), nowMs) : null;
    const waitsForHead = head !== null && this.#pending.length > 1;
    if (hasPlace(tasks, nowMs) && !isStuck && !waitsForHead) return null;
    const by = running.length > 0 ? running.slice(0, NAMED_OF_KEY) : head ? [head] : [];
    const pending = Math.min(this.#pending.length, COUNTED_OF_KEY);
    return { ...declared, pending, by: by.map(blocking) };
  }

  dueBy(atMs: number): Generator<TaskRecord, void, void> {
    return this.#inClaimOrder.dueBy(atMs);
  }
}

/** The head of a key in order, if it keeps back those behind it. */
function headThatWaits(pending: Iterable<TaskRecord>, nowMs: number): TaskRecord | null {
  for (const record of pending) {
    if (record.scheduledAtMs <= nowMs) return null;
    if (record.last) return record;
  }
  return null;
}

function blocking({ id, state, last, scheduledAtMs }: TaskRecord): BlockingTask {
  return state === "running" && last
    ? { id, state, holder: last.holder, until: new Date(last.expiresAtMs).toISOString() }
    : { id, state: "pending", holder: null, until: new Date(scheduledAtMs).toISOString() };
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

  /** Keys of which tasks wait for others, those with the most first. */
  blocked({ only, limit }: BlockedKeysQuery, nowMs: number): BlockedKey[] {
    const found: BlockedKey[] = [];
    for (const [queue, kinds] of this.#queues) {
      if (only && only.queue !== queue) continue;
      for (const [kind, keys] of kinds) {
        if (only && only.kind !== kind) continue;
        for (const [key, lane] of keys) {
          const blocked = only && only.key !== key ? null : lane.blocked(nowMs);
          if (blocked) found.push({ queue, kind, ...blocked });
        }
      }
    }
    const byName = (name: BlockedKey) => JSON.stringify([name.queue, name.kind, name.key]);
    found.sort((a, b) => b.pending - a.pending || (byName(a) < byName(b) ? -1 : 1));
    return found.slice(0, limit);
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
