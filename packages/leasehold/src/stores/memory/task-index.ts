/** The tasks of one namespace in memory, with an index for each order of access. */
import type { NewTask, TaskState } from "../../tasks/port.js";
import { isUnfinished, type TaskRecord } from "../../tasks/record.js";

/**
 * Pending tasks of one queue, kind and priority, ordered by due time: if the first is not due, none is.
 */
interface Lane {
  readonly queue: string;
  readonly kind: string;
  readonly tasks: SortedList<TaskRecord>;
}

export class TaskIndex {
  readonly counts: Record<TaskState, number> = {
    pending: 0,
    running: 0,
    done: 0,
    dead: 0,
    cancelled: 0,
  };
  readonly #records = new Map<string, TaskRecord>();
  readonly #ids = new SortedList<string>(compareIds);
  readonly #lanes = new Map<string, Lane>();
  readonly #running = new Set<string>();
  /** The unfinished task of each kind and dedupeKey. */
  readonly #deduped = new Map<string, string>();

  get(id: string | null): TaskRecord | null {
    return (id && this.#records.get(id)) || null;
  }

  /** Adds a task, or replaces its previous record. */
  put(record: TaskRecord): void {
    const before = this.#records.get(record.id);
    if (before) this.#leave(before);
    else this.#ids.add(record.id);
    this.#records.set(record.id, record);
    this.#enter(record);
  }

  delete(record: TaskRecord): void {
    this.#leave(record);
    this.#ids.delete(record.id);
    this.#records.delete(record.id);
  }

  /** Another unfinished task with this task's dedupeKey. */
  rival(task: Pick<NewTask, "id" | "kind" | "dedupeKey">): TaskRecord | null {
    const name = dedupeName(task);
    const id = name === null ? undefined : this.#deduped.get(name);
    return id === undefined || id === task.id ? null : this.get(id);
  }

  /** The first pending task that is due. */
  due(
    queues: readonly string[],
    kinds: readonly string[] | null,
    nowMs: number,
  ): TaskRecord | null {
    let best: TaskRecord | null = null;
    for (const { queue, kind, tasks } of this.#lanes.values()) {
      const [first] = tasks.items;
      if (!first || first.scheduledAtMs > nowMs) continue;
      if (!queues.includes(queue) || (kinds && !kinds.includes(kind))) continue;
      if (!best || compareClaim(first, best) < 0) best = first;
    }
    return best;
  }

  /** Every pending task that was due by then. */
  *dueBy(atMs: number): Generator<TaskRecord, void, void> {
    for (const { tasks } of this.#lanes.values()) {
      for (const task of tasks.items) {
        if (task.scheduledAtMs > atMs) break;
        yield task;
      }
    }
  }

  running(): TaskRecord[] {
    return [...this.#running].flatMap((id) => this.#records.get(id) ?? []);
  }

  /** Newest id first, starting before `cursor`. */
  *newestFirst(cursor: string | undefined): Generator<TaskRecord, void, void> {
    const { items } = this.#ids;
    let index = cursor === undefined ? items.length : this.#ids.position(cursor);
    while (index > 0) {
      index -= 1;
      const record = this.get(items[index] ?? null);
      if (record) yield record;
    }
  }

  #enter(record: TaskRecord): void {
    const { id, state } = record;
    this.counts[state] += 1;
    if (state === "running") this.#running.add(id);
    if (state === "pending") this.#lane(record).tasks.add(record);
    const name = dedupeName(record);
    if (name !== null && isUnfinished(state)) this.#deduped.set(name, id);
  }

  #leave(record: TaskRecord): void {
    const { id, state } = record;
    this.counts[state] -= 1;
    if (state === "running") this.#running.delete(id);
    if (state === "pending") {
      const { tasks } = this.#lane(record);
      tasks.delete(record);
      if (tasks.items.length === 0) this.#lanes.delete(laneName(record));
    }
    const name = dedupeName(record);
    if (name !== null && isUnfinished(state)) this.#deduped.delete(name);
  }

  #lane(record: TaskRecord): Lane {
    const name = laneName(record);
    let lane = this.#lanes.get(name);
    if (!lane) {
      const { queue, kind } = record;
      lane = { queue, kind, tasks: new SortedList(compareClaim) };
      this.#lanes.set(name, lane);
    }
    return lane;
  }
}

function laneName({ queue, kind, priority }: TaskRecord): string {
  return JSON.stringify([queue, kind, priority]);
}

function dedupeName({ kind, dedupeKey }: Pick<NewTask, "kind" | "dedupeKey">): string | null {
  return dedupeKey === null ? null : JSON.stringify([kind, dedupeKey]);
}

/** The order of claims. */
function compareClaim(a: TaskRecord, b: TaskRecord): number {
  return a.priority - b.priority || a.scheduledAtMs - b.scheduledAtMs || compareIds(a.id, b.id);
}

function compareIds(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** A sorted array. Most tasks are appended at the end and taken from the front; both are cheap. */
class SortedList<T> {
  readonly items: T[] = [];
  readonly #compare: (a: T, b: T) => number;

  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare;
  }

  add(item: T): void {
    this.items.splice(this.position(item), 0, item);
  }

  delete(item: T): void {
    const position = this.position(item);
    if (position === 0) this.items.shift();
    else this.items.splice(position, 1);
  }

  /** The index of the item, or its insertion point. */
  position(item: T): number {
    let low = 0;
    let high = this.items.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#compare(this.items[middle] as T, item) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
