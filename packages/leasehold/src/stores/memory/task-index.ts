/** The tasks of one namespace in memory, with an index for each order of access. */

import type { ClaimRequest, NewTask, TaskState } from "../../tasks/port.js";
import { NO_TASKS, versionTaken } from "../../tasks/port.js";
import { isUnfinished, type TaskRecord } from "../../tasks/record.js";
import { SortedList } from "./sorted-list.js";
import { isKeyed, KeyLanes } from "./task-keys.js";
import { inClaimOrder, Lanes } from "./task-lanes.js";

/** The pending tasks of one queue: of all kinds, and of each version of each kind. */
interface Queue {
  readonly all: Lanes;
  readonly kinds: Map<string, Map<number, Lanes>>;
}

type Wanted = Pick<ClaimRequest, "kinds" | "versions">;

interface Late {
  readonly seq: number;
  readonly startByAtMs: number;
}

/** Whether it must begin in time, and has not begun. */
function hasToBegin(record: TaskRecord): record is TaskRecord & Late {
  return record.state === "pending" && record.startByAtMs !== null && record.last === null;
}

interface Deletion {
  readonly seq: number;
  readonly deleteAtMs: number;
}

function isDeletion(record: TaskRecord): record is TaskRecord & Deletion {
  return record.deleteAtMs !== null;
}

export class TaskIndex {
  readonly counts: Record<TaskState, number> = { ...NO_TASKS };
  readonly #records = new Map<string, TaskRecord>();
  readonly #numbered = new Map<number, TaskRecord>();
  readonly #all = new SortedList<number>(ascending);
  /** Holds only queues and kinds with pending tasks. */
  readonly #queues = new Map<string, Queue>();
  /** The unfinished tasks with a concurrency key: those are in no queue above. */
  readonly keys = new KeyLanes();
  readonly #running = new SortedList<number>(ascending);
  /** Those that are not kept for ever, in the order in which they are to be deleted. */
  readonly #deletions = new SortedList<Deletion>(
    (a, b) => a.deleteAtMs - b.deleteAtMs || a.seq - b.seq,
  );
  /** The pending tasks that must begin in time, by that time. */
  readonly #beginnings = new SortedList<Late>(
    (a, b) => a.startByAtMs - b.startByAtMs || a.seq - b.seq,
  );
  /** The unfinished task of each kind and dedupeKey. */
  readonly #deduped = new Map<string, string>();

  get(id: string): TaskRecord | null {
    return this.#records.get(id) ?? null;
  }

  /** Adds a task, or replaces its previous record. */
  put(record: TaskRecord): void {
    const before = this.#records.get(record.id);
    if (before) this.#leave(before);
    else this.#all.add(record.seq);
    this.#records.set(record.id, record);
    this.#numbered.set(record.seq, record);
    this.#enter(record);
  }

  delete(record: TaskRecord): void {
    this.#leave(record);
    this.#all.delete(record.seq);
    this.#records.delete(record.id);
    this.#numbered.delete(record.seq);
  }

  /** Another unfinished task with this task's dedupeKey. */
  rival(task: Pick<NewTask, "id" | "kind" | "dedupeKey">): TaskRecord | null {
    const name = dedupeName(task);
    const id = name === null ? undefined : this.#deduped.get(name);
    return id === undefined || id === task.id ? null : this.get(id);
  }

  /**
   * The pending tasks that are due, in the order of claims. The caller makes each one running before it asks for
   * the next. Kinds and versions that are not asked for cost nothing.
   * @param allows asked of each task, if there are limits; if it may not start, nor may those of its kind and queue behind it
   */
  due(
    queues: readonly string[],
    wanted: Wanted,
    nowMs: number,
    allows?: (record: TaskRecord) => boolean,
  ): Generator<TaskRecord, void, void> {
    return inClaimOrder(this.#asked(new Set(queues), wanted, allows !== undefined), nowMs, allows);
  }

  *#asked(
    queues: ReadonlySet<string>,
    wanted: Wanted,
    byKind: boolean,
  ): Generator<Pick<Lanes, "firstDue">, void, void> {
    const kinds = wanted.kinds && new Set(wanted.kinds);
    for (const name of queues) {
      for (const lane of this.keys.of(name, kinds)) yield takenOf(lane, wanted);
      const queue = this.#queues.get(name);
      if (queue && !kinds && !byKind) yield queue.all;
      for (const kind of (queue && (kinds ?? (byKind ? queue.kinds.keys() : []))) ?? []) {
        const most = versionTaken(wanted, kind);
        for (const [version, lanes] of queue?.kinds.get(kind) ?? []) {
          if (version <= most) yield lanes;
        }
      }
    }
  }

  /** Every pending task that was due by then. */
  *dueBy(atMs: number): Generator<TaskRecord, void, void> {
    for (const { kinds } of this.#queues.values()) {
      for (const versions of kinds.values()) {
        for (const lanes of versions.values()) yield* lanes.dueBy(atMs);
      }
    }
    yield* this.keys.dueBy(atMs);
  }

  /** At most `limit` ended tasks that are to be kept no longer. */
  deletable(nowMs: number, limit: number): TaskRecord[] {
    const due: number[] = [];
    for (const { deleteAtMs, seq } of this.#deletions.from()) {
      if (deleteAtMs > nowMs || due.length === limit) break;
      due.push(seq);
    }
    return [...this.#recordsOf(due)];
  }

  /** Returns the tasks that have not begun in time. */
  late(nowMs: number): TaskRecord[] {
    const late: number[] = [];
    for (const { startByAtMs, seq } of this.#beginnings.from()) {
      if (startByAtMs > nowMs) break;
      late.push(seq);
    }
    return [...this.#recordsOf(late)];
  }

  running(): TaskRecord[] {
    return [...this.#recordsOf(this.#running.from())];
  }

  /** Running tasks, newest first, starting before the one with the number `before`. */
  runningNewestFirst(before: number | undefined): Generator<TaskRecord, void, void> {
    return this.#recordsOf(this.#running.backFrom(before));
  }

  /** Newest first, starting before the one with the number `before`. */
  newestFirst(before: number | undefined): Generator<TaskRecord, void, void> {
    return this.#recordsOf(this.#all.backFrom(before));
  }

  /** Those of these ids, newest first, starting before the one with the number `before`. */
  newestOf(
    ids: readonly string[],
    before = Number.POSITIVE_INFINITY,
  ): Generator<TaskRecord, void, void> {
    const wanted = [...new Set(ids)].flatMap((id) => this.get(id)?.seq ?? []);
    return this.#recordsOf(wanted.filter((seq) => seq < before).sort((a, b) => b - a));
  }

  /** The task with this number. */
  numbered(seq: number): TaskRecord | null {
    return this.#numbered.get(seq) ?? null;
  }

  *#recordsOf(numbers: Iterable<number>): Generator<TaskRecord, void, void> {
    for (const seq of numbers) {
      const record = this.#numbered.get(seq);
      if (record) yield record;
    }
  }

  #enter(record: TaskRecord): void {
    const { id, state } = record;
    this.counts[state] += 1;
    if (state === "running") this.#running.add(record.seq);
    if (isDeletion(record)) this.#deletions.add(record);
    if (hasToBegin(record)) this.#beginnings.add(record);
    if (isKeyed(record)) {
      if (isUnfinished(state)) this.keys.add(record);
    } else if (state === "pending") this.#enqueue(record);
    const name = dedupeName(record);
    if (name !== null && isUnfinished(state)) this.#deduped.set(name, id);
  }

  #leave(record: TaskRecord): void {
    const { state } = record;
    this.counts[state] -= 1;
    if (state === "running") this.#running.delete(record.seq);
    if (isDeletion(record)) this.#deletions.delete(record);
    if (hasToBegin(record)) this.#beginnings.delete(record);
    if (isKeyed(record)) {
      if (isUnfinished(state)) this.keys.delete(record);
    } else if (state === "pending") this.#dequeue(record);
    const name = dedupeName(record);
    if (name !== null && isUnfinished(state)) this.#deduped.delete(name);
  }

  #enqueue(record: TaskRecord): void {
    const queue: Queue = this.#queues.get(record.queue) ?? { all: new Lanes(), kinds: new Map() };
    this.#queues.set(record.queue, queue);
    queue.all.add(record);
    const versions = queue.kinds.get(record.kind) ?? new Map<number, Lanes>();
    queue.kinds.set(record.kind, versions);
    const lanes = versions.get(record.version) ?? new Lanes();
    versions.set(record.version, lanes);
    lanes.add(record);
  }

  #dequeue(record: TaskRecord): void {
    const queue = this.#queues.get(record.queue);
    const versions = queue?.kinds.get(record.kind);
    const lanes = versions?.get(record.version);
    queue?.all.delete(record);
    lanes?.delete(record);
    if (lanes?.isEmpty) versions?.delete(record.version);
    if (versions?.size === 0) queue?.kinds.delete(record.kind);
    if (queue?.all.isEmpty) this.#queues.delete(record.queue);
  }
}

/** The first task of a key keeps back those behind it, also if it is of a version that the claim does not take. */
function takenOf(lane: Pick<Lanes, "firstDue">, wanted: Wanted): Pick<Lanes, "firstDue"> {
  return {
    firstDue(nowMs) {
      const first = lane.firstDue(nowMs);
      return first && first.version <= versionTaken(wanted, first.kind) ? first : null;
    },
  };
}

function ascending(a: number, b: number): number {
  return a - b;
}

function dedupeName({ kind, dedupeKey }: Pick<NewTask, "kind" | "dedupeKey">): string | null {
  return dedupeKey === null ? null : JSON.stringify([kind, dedupeKey]);
}
