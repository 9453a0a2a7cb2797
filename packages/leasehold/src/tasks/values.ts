/** Values that every part of the task port names. */

/** The data and the output of a task: any JSON value. */
export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [name: string]: Json };

export type TaskState = "pending" | "running" | "done" | "dead" | "cancelled";
export const TASK_STATES: readonly TaskState[] = [
  "pending",
  "running",
  "done",
  "dead",
  "cancelled",
];

/** The version of a task that names none, such as every task from before kinds had versions. */
export const FIRST_VERSION = 1;
export const LARGEST_VERSION = 32_767;

export interface TaskKey {
  readonly namespace: string;
  readonly id: string;
}

/** The limit and the order of the tasks of a queue and kind that have the same key. The newest of them decides for all. */
export interface Concurrency {
  /** 1-256 bytes. */
  readonly key: string;
  /** At most this many of them have a live lease at any time; 1 to 10,000. */
  readonly perKey: number;
  /** `fifo`: in the order in which they were enqueued; `any`: in claim order, past those that wait for a retry. */
  readonly order: "fifo" | "any";
}
