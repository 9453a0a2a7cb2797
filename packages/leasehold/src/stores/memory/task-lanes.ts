/** Pending tasks in memory, in the order of claims: priority, scheduledAt, seq. */
import TinyQueue from "tinyqueue";
import type { TaskRecord } from "../../tasks/record.js";
import { SortedList } from "./sorted-list.js";

/** Pending tasks of one priority, ordered by due time: if the first is not due, none is. */
interface Lane {
  readonly priority: number;
  readonly tasks: SortedList<TaskRecord>;
}

/** Pending tasks of one queue, or of one kind in it: a lane for each priority. */
export class Lanes {
  readonly #byPriority = new Map<number, Lane>();
  readonly #priorities = new SortedList<number>((a, b) => a - b);

  get isEmpty(): boolean {
    return this.#byPriority.size === 0;
  }

  add(record: TaskRecord): void {
    const { priority } = record;
    let lane = this.#byPriority.get(priority);
    if (!lane) {
      lane = { priority, tasks: new SortedList(compareClaim) };
      this.#byPriority.set(priority, lane);
      this.#priorities.add(priority);
    }
    lane.tasks.add(record);
  }

  delete(record: TaskRecord): void {
    const { priority } = record;
    const lane = this.#byPriority.get(priority);
    lane?.tasks.delete(record);
    if (lane?.tasks.length !== 0) return;
    this.#byPriority.delete(priority);
    this.#priorities.delete(priority);
  }

  /** The first task that is due, of this priority or a later one. */
  firstDue(nowMs: number, priority?: number): TaskRecord | null {
    for (const each of this.#priorities.from(priority)) {
      const first = this.#byPriority.get(each)?.tasks.first;
      if (first && first.scheduledAtMs <= nowMs) return first;
    }
    return null;
  }

  /** Every task that was due by then. */
  *dueBy(atMs: number): Generator<TaskRecord, void, void> {
    for (const priority of this.#priorities.from()) {
      for (const task of this.#byPriority.get(priority)?.tasks.from() ?? []) {
        if (task.scheduledAtMs > atMs) break;
        yield task;
      }
    }
  }
}

/** The due tasks of all these lanes. The caller removes each one from its lane before it asks for the next. */
export function* inClaimOrder(
  all: Iterable<Pick<Lanes, "firstDue">>,
  nowMs: number,
): Generator<TaskRecord, void, void> {
  const heads: { readonly first: TaskRecord; readonly lanes: Pick<Lanes, "firstDue"> }[] = [];
  for (const lanes of all) {
    const first = lanes.firstDue(nowMs);
    if (first) heads.push({ first, lanes });
  }
  const queue = new TinyQueue(heads, (a, b) => compareClaim(a.first, b.first));
  for (let head = queue.pop(); head; head = queue.pop()) {
    const { first, lanes } = head;
    yield first;
    // The lanes before this one have no due task: they are not looked at again.
    const next = lanes.firstDue(nowMs, first.priority);
    if (next) queue.push({ first: next, lanes });
  }
}

function compareClaim(a: TaskRecord, b: TaskRecord): number {
  return a.priority - b.priority || a.scheduledAtMs - b.scheduledAtMs || a.seq - b.seq;
}
