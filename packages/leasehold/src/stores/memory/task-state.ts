/** What all memory stores of one name share: the tasks of each namespace, and who watches them. */
import type { Env, EventQueue } from "../../env/index.js";
import { SOON_MS, type TaskEndEvent, type TaskWatchEvent } from "../../tasks/port.js";
import { isUnfinished, type TaskRecord } from "../../tasks/record.js";
import { LimitTable } from "./limit-table.js";
import { TaskIndex } from "./task-index.js";
import { isKeyed } from "./task-keys.js";

export interface Namespace {
  readonly tasks: TaskIndex;
  readonly limits: LimitTable;
  /** The tasks that each claim took, oldest claim first. */
  readonly claims: Map<string, { readonly ids: readonly string[]; readonly atMs: number }>;
  readonly watchers: Set<EventQueue<TaskWatchEvent>>;
  /** Of the ends of tasks. */
  readonly endWatchers: Set<EventQueue<TaskEndEvent>>;
  /** The largest token among deleted tasks. */
  tokenFloor: number;
}

/**
 * State shared by all stores of one name. It uses the clock and the randomness of the env that created
 * it.
 */
export class MemoryTaskState {
  readonly random: Env["random"];
  readonly namespaces = new Map<string, Namespace>();
  readonly #clock: Env["clock"];
  readonly #originMs: number;
  #seq = 0;

  constructor({ clock, random }: Pick<Env, "clock" | "random">) {
    this.random = random;
    this.#clock = clock;
    this.#originMs = clock.wall() - clock.monotonic();
  }

  /**
   * Milliseconds since the Unix epoch, by the monotonic clock: a jump of the wall clock neither
   * shortens nor extends a lease.
   */
  nowMs(): number {
    return this.#originMs + this.#clock.monotonic();
  }

  /** Grows with each call. */
  nextSeq(): number {
    this.#seq += 1;
    return this.#seq;
  }

  namespace(name: string): Namespace {
    let namespace = this.namespaces.get(name);
    if (!namespace) {
      namespace = {
        tasks: new TaskIndex(),
        limits: new LimitTable(),
        claims: new Map(),
        watchers: new Set(),
        endWatchers: new Set(),
        tokenFloor: 0,
      };
      this.namespaces.set(name, namespace);
    }
    return namespace;
  }
}

/** Deletes a task, of whatever state. */
export function remove(namespace: Namespace, record: TaskRecord): void {
  // The id may be added again.
  namespace.tokenFloor = Math.max(namespace.tokenFloor, record.last?.token ?? 0);
  namespace.tasks.delete(record);
  notifyNext(namespace, record);
}

/** Notifies waiting workers of tasks that they can claim now, and those who wait for a task of its end. */
export function notify(namespace: Namespace, record: TaskRecord, nowMs: number): void {
  const { watchers, endWatchers } = namespace;
  const { id, state, queue, scheduledAtMs } = record;
  if (!isUnfinished(state)) for (const watcher of endWatchers) watcher.push({ type: "ended", id });
  if (state === "pending" && scheduledAtMs <= nowMs) {
    for (const watcher of watchers) watcher.push({ type: "ready", queue });
  } else if (state === "pending" && scheduledAtMs - nowMs <= SOON_MS) {
    const inMs = Math.ceil(scheduledAtMs - nowMs);
    for (const watcher of watchers) watcher.push({ type: "ready", queue, inMs });
  } else if (state !== "running") notifyNext(namespace, record);
}

/** A task of a limited kind or queue has ended, or its lease: another one may run now. */
export function notifyPlace({ limits, watchers }: Namespace, record: TaskRecord): void {
  if (record.state === "running") return;
  for (const { scope, name } of limits.of(record)) {
    // Tasks of a kind may wait in any queue.
    for (const watcher of watchers) {
      watcher.push(scope === "kind" ? { type: "resync" } : { type: "ready", queue: name });
    }
  }
}

/** The next task of the key may run now. */
function notifyNext({ tasks, watchers }: Namespace, record: TaskRecord): void {
  if (!isKeyed(record) || !tasks.keys.hasPending(record)) return;
  for (const watcher of watchers) watcher.push({ type: "ready", queue: record.queue });
}
