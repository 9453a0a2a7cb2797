/** Values that every part of the task port names. */

/** The data and the output of a task: any JSON value. */
export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [name: string]: Json };

/** Where a task is: waiting, under a lease, completed, failed for good, ended by an operator, or not begun in time. */
export type TaskState = "pending" | "running" | "done" | "dead" | "cancelled" | "expired";
export const TASK_STATES: readonly TaskState[] = [
  "pending",
  "running",
  "done",
  "dead",
  "cancelled",
  "expired",
];

/** How many tasks are in each state, where there are none. */
export const NO_TASKS: Readonly<Record<TaskState, number>> = {
  pending: 0,
  running: 0,
  done: 0,
  dead: 0,
  cancelled: 0,
  expired: 0,
};

/** The version of a task that names none, such as every task from before kinds had versions. */
export const FIRST_VERSION = 1;
export const LARGEST_VERSION = 32_767;

/** As of a claim. */
interface Taken {
  readonly kinds: readonly string[] | null;
  readonly versions?: Readonly<Record<string, number>> | undefined;
}
/** The largest version of a kind that a claim takes. A claim for any kind takes any version. */
export function versionTaken({ kinds, versions }: Taken, kind: string): number {
  if (!kinds) return Number.POSITIVE_INFINITY;
  return versions && Object.hasOwn(versions, kind)
    ? (versions[kind] ?? FIRST_VERSION)
    : FIRST_VERSION;
}

/** How long a task that has failed waits before it is tried again. */
export interface TaskBackoff {
  /** The wait before the first retry, in milliseconds. */
  readonly firstMs: number;
  /** The longest wait, in milliseconds; also before the first retry. */
  readonly longestMs: number;
  /** By which factor each wait is longer than the one before, 1 to 100. */
  readonly factor: number;
  /** Which share of a wait is random, 0 to 1: with 0.5 a wait takes between half and the whole of what it could. */
  readonly jitter: number;
}

/** The id of a task in its namespace. */
export interface TaskKey {
  readonly namespace: string;
  readonly id: string;
}

/** At most `limit` tasks start in each window of `perMs`: see limits.ts. */
export interface Rate {
  /** 1 to 1,000,000. */
  readonly limit: number;
  /** In milliseconds, 1 to 86,400,000 (a day). */
  readonly perMs: number;
}

/** The limit and the order of the tasks of a queue and kind that have the same key. The newest of them decides for all. */
export interface Concurrency {
  /** 1-256 bytes. */
  readonly key: string;
  /** At most this many of them have a live lease at any time; 1 to 10,000. */
  readonly perKey: number;
  /** `fifo`: in the order in which they were enqueued; `any`: in claim order, past those that wait for a retry. */
  readonly order: "fifo" | "any";
  /** Default: they start as soon as others of the key let them. */
  readonly rate?: Rate | undefined;
}

/**
 * A claim that names no `graceMs` holds tasks for this long after their `maxRunMs`: a worker lets handlers end for five seconds
 * by default, and needs another one to report them.
 */
export const DEFAULT_GRACE_MS = 6_000;
