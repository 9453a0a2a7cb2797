/**
 * The part of the task port for those who wait: for the result of a task, or until a queue is empty.
 *
 *   watchResults ─▶ resync ─▶ results, with notifyMs ─▶ unfinished ─▶ ended ─▶ results
 *
 * A store notifies of the end of a task only while a caller waits for it, so that tasks whose result is not awaited cost
 * nothing.
 */
import type { CallOptions, WatchEvent } from "../lease/index.js";
import type { Json, TaskKey, TaskState } from "./values.js";

/** How a task has ended, or that it has not. */
export interface TaskResult {
  readonly id: string;
  /** `unknown`: no such task. */
  readonly state: TaskState | "unknown";
  /** Of a task that is done. Absent if it does not fit into the answer: ask again for those that are left out. */
  readonly output?: Json;
  /** A task that is dead, cancelled or expired has the error of the last attempt that failed, or null. Absent like `output`. */
  readonly error?: string | null;
}

/** Options of `results`. */
export interface ReadResultsOptions extends CallOptions {
  /** For at least this long, `watchResults` yields the end of those tasks that have not ended yet. Default: not at all. */
  readonly notifyMs?: number;
}

/** A notification that an awaited task of the namespace has ended. */
export type TaskEndEvent =
  | { readonly type: "ended"; readonly id: string }
  | Extract<WatchEvent, { type: "resync" }>;

/** Which tasks of a namespace to count. */
export interface TaskStatsQuery {
  readonly namespace: string;
  /** Only tasks of these queues; default any. */
  readonly queues?: readonly string[];
  /** Only tasks of these kinds; default any. */
  readonly kinds?: readonly string[];
  /** With `kinds`: only tasks that a claim of these versions takes. Default: of any version. */
  readonly versions?: Readonly<Record<string, number>>;
  /** Counts pending and running tasks alone. Default false. */
  readonly unfinishedOnly?: boolean;
  /**
   * At most this many tasks of each state are counted, and of pending ones so many that are due and so many that are not.
   * `tasks.stats` has the default 20,000, so that a call stays cheap.
   */
  readonly limit: number;
}
/** The tasks of one kind in a queue. */
export interface TaskStats extends Readonly<Record<TaskState, number>> {
  readonly queue: string;
  readonly kind: string;
  /** Pending tasks that are due now. */
  readonly due: number;
  /** How long the oldest of them has been due, in milliseconds; null if none is. */
  readonly dueForMs: number | null;
}

/** Counts of tasks. */
export interface TaskStatistics {
  /** By queue and kind. */
  readonly items: readonly TaskStats[];
  /** False: of some state there are at least as many tasks as counted. */
  readonly complete: boolean;
}

/** What callers that wait for results of tasks need of a store. */
export interface TaskWaits {
  /**
   * Reads how tasks have ended, one result per task, in order. One answer has outputs and errors of at most 256 KiB
   * together, but never less than the first.
   */
  results(tasks: readonly TaskKey[], options?: ReadResultsOptions): Promise<readonly TaskResult[]>;
  /**
   * Yields a `resync` once the subscription is active, and then the end of each task that `results` was asked to notify
   * of. A task may end without a notification if it ends while `results` reads it. With `watch: "poll"` it yields a
   * `resync` alone.
   */
  watchResults(
    namespace: string,
    options: { readonly signal: AbortSignal },
  ): AsyncIterable<TaskEndEvent>;
  /** Counts tasks by queue and kind, within a bound. */
  stats(query: TaskStatsQuery): Promise<TaskStatistics>;
}
