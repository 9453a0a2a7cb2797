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

export interface TaskKey {
  readonly namespace: string;
  readonly id: string;
}
