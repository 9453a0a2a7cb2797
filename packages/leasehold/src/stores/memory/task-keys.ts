/** The unfinished tasks with a concurrency key, in memory. */
import {
  type BlockedKey,
  type BlockedKeysQuery,
  type BlockingTask,
  COUNTED_OF_KEY,
  NAMED_OF_KEY,
} from "../../tasks/blocked-keys.js";
import { hasPlace, headOfKey, type KeyTasks } from "../../tasks/keys.js";
import { permitsOf, type RateWindow, started, usedUpUntilMs } from "../../tasks/limits.js";
import type { ClaimRequest, Concurrency } from "../../tasks/port.js";
import type { TaskRecord } from "../../tasks/record.js";
import { SortedList } from "./sorted-list.js";
import { Lanes } from "./task-lanes.js";

/** A newer task may declare a longer window, of which the one that has ended is the beginning. */
const WINDOWS_KEPT_MS = 600_000;

/** The last window of the rate of each key. They outlast its tasks. */
class KeyWindows {
  readonly #windows = new Map<string, RateWindow & { readonly endMs: number }>();

  of(name: string): RateWindow | undefined {
    return this.#windows.get(name);
  }

  started(name: string, { rate }: Concurrency, nowMs: number): void {
    if (!rate) return;
    const window = started(rate, this.of(name), nowMs);
    this.#windows.set(name, { ...window, endMs: window.startMs + rate.perMs });
  }

  forget(nowMs: number): void {
    for (const [name, { endMs }] of this.#windows) {
      if (endMs + WINDOWS_KEPT_MS <= nowMs) this.#windows.delete(name);
    }
  }
}

/** The tasks of one key: `firstDue` is that of {@link Lanes}, by the rules of keys. */
class KeyLane {
  /** Of its window. */
  readonly #name: string;
  readonly #windows: KeyWindows;
  readonly #pending = new SortedList<TaskRecord>((a, b) => a.seq - b.seq);
  readonly #inClaimOrder = new Lanes();
  readonly #running = new Set<TaskRecord>();

  constructor(name: string, windows: KeyWindows) {
    this.#name = name;
    this.#windows = windows;
  }

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

  /** As its newest pending task declares it. */
  get #declared(): Concurrency | undefined {
    const [newest] = this.#pending.backFrom();
    return newest?.concurrency;
  }

  firstDue(nowMs: number): TaskRecord | null {
    const declared = this.#declared;
    if (!declared) return null;
    const tasks: KeyTasks = { pending: this.#pending.from(), running: this.#running, declared };
    if (!hasPlace(tasks, nowMs)) return null;
    if (permitsOf(declared.rate, this.#windows.of(this.#name), nowMs) === 0) return null;
    if (declared.order === "any") return this.#inClaimOrder.firstDue(nowMs);
    return headOfKey(tasks, nowMs);
  }

  /** A task of the key is about to start. */
  started(nowMs: number): void {
    const declared = this.#declared;
    if (declared) this.#windows.started(this.#name, declared, nowMs);
  }

  /** When its rate, which keeps its tasks back, lets the next one start; null: it keeps none back. */
  usedUpUntilMs(nowMs: number): number | null {
    return usedUpUntilMs(this.#declared?.rate, this.#windows.of(this.#name), nowMs);
  }

  /** Null if no task of the key waits for another one. */
  blocked(nowMs: number): Omit<BlockedKey, "queue" | "kind"> | null {
    const declared = this.#declared;
    if (!declared) return null;
    const running = [...this.#running].sort((a, b) => a.seq - b.seq);
    const tasks: KeyTasks = { pending: this.#pending.from(), running, declared };
    const inOrder = declared.order === "fifo";
    const isStuck = inOrder && running.some(({ last }) => (last?.expiresAtMs ?? 0) <= nowMs);
    const head = inOrder ? headThatWaits(this.#pending.from(), nowMs) : null;
    const waitsForHead = head !== null && this.#pending.length > 1;
    const untilMs = this.usedUpUntilMs(nowMs);
    if (hasPlace(tasks, nowMs) && !isStuck && !waitsForHead && untilMs === null) return null;
    const by = running.length > 0 ? running.slice(0, NAMED_OF_KEY) : head ? [head] : [];
    const pending = Math.min(this.#pending.length, COUNTED_OF_KEY);
    const usedUpUntil = untilMs === null ? null : new Date(untilMs).toISOString();
    return { ...declared, pending, by: by.map(blocking), usedUpUntil };
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
  readonly #windows = new KeyWindows();

  add(record: Keyed): void {
    const { queue, kind, concurrency } = record;
    const kinds = entry(this.#queues, queue, () => new Map<string, Map<string, KeyLane>>());
    const keys = entry(kinds, kind, () => new Map<string, KeyLane>());
    const name = () => JSON.stringify([queue, kind, concurrency.key]);
    entry(keys, concurrency.key, () => new KeyLane(name(), this.#windows)).add(record);
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

  /** A pending task is about to start: it counts for the rate of its key. */
  started({ queue, kind, concurrency }: Keyed, nowMs: number): void {
    this.#queues.get(queue)?.get(kind)?.get(concurrency.key)?.started(nowMs);
  }

  /** When the first of the keys that a rate keeps back may go on; infinite: there is none. */
  nextMs({ queues, kinds }: Pick<ClaimRequest, "queues" | "kinds">, nowMs: number): number {
    const lanes = queues.flatMap((queue) => [...this.of(queue, kinds && new Set(kinds))]);
    return Math.min(...lanes.flatMap((lane) => lane.usedUpUntilMs(nowMs) ?? []));
  }

  /** Forgets the windows of rates that have ended for a time. */
  forgetWindows(nowMs: number): void {
    this.#windows.forget(nowMs);
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
