/** The part of the task port that shows which concurrency keys keep tasks back. */
import type { Concurrency, TaskState } from "./values.js";

/** Which concurrency keys of a namespace to list: those that keep tasks back. */
export interface BlockedKeysQuery {
  readonly namespace: string;
  /** Only this one; default all of them. */
  readonly only?: KeyName;
  /** At most this many keys. */
  readonly limit: number;
}
/** A key belongs to a queue and a kind. */
export interface KeyName {
  readonly queue: string;
  readonly kind: string;
  readonly key: string;
}
/** A key of which pending tasks must wait for others of the same key. */
export interface BlockedKey extends KeyName, Concurrency {
  /** Its pending tasks, up to 1,000. */
  readonly pending: number;
  /** The tasks that the others wait for: those that run, up to 10, or else the head, which waits for its retry. */
  readonly by: readonly BlockingTask[];
  /** While the rate of the key is used up: when its next window may begin, as ISO 8601. Else null. */
  readonly usedUpUntil: string | null;
}

/** A task for which others with its concurrency key wait. */
export interface BlockingTask {
  readonly id: string;
  readonly state: Extract<TaskState, "running" | "pending">;
  /** Who runs it; null if it is pending. */
  readonly holder: string | null;
  /** When its lease expires, or when it is due. ISO 8601. */
  readonly until: string;
}

/** Pending tasks that are counted at most. */
export const COUNTED_OF_KEY = 1_000;
/** Tasks of a key that are named at most. */
export const NAMED_OF_KEY = 10;
