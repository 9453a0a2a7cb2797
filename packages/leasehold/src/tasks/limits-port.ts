/** The part of the task port that limits how many tasks of a kind or queue run at once, and how many start in a time. */
import type { CallOptions, Failed } from "../lease/index.js";
import type { BlockingTask } from "./blocked-keys.js";
import type { Rate } from "./values.js";

/** What is limited: the tasks of a kind in all queues, or those of a queue of all kinds. */
export type LimitScope = "kind" | "queue";

/** What a limit of tasks is set on: a kind or a queue of a namespace. */
export interface LimitKey {
  readonly namespace: string;
  readonly scope: LimitScope;
  /** Of the kind or the queue. */
  readonly name: string;
}
/** At least one of the two. */
export interface TaskLimit {
  /** At most this many tasks have a live lease at any time, 1 to 100,000; null: any number. */
  readonly running: number | null;
  /** Null: they start as fast as they can. */
  readonly rate: Rate | null;
}

/** Sets the limit of a kind or a queue, in place of the one before. */
export interface DeclareLimitRequest extends LimitKey {
  readonly limit: TaskLimit;
  /** Who declares it, for people. */
  readonly by: string;
}
/** `none`: it was so already, and nothing was written; `full`: the namespace has {@link MOST_LIMITS}. */
export type DeclareLimitOutcome =
  | { readonly status: "declared"; readonly change: "added" | "changed" | "none" }
  | { readonly status: "full" }
  | Failed;

/** A limit, and what it keeps back now. Times are the store's, as ISO 8601. */
export interface LimitView extends LimitKey, TaskLimit {
  /** When it was declared as it is, and by whom. */
  readonly declaredAt: string;
  readonly declaredBy: string;
  /** How many of its tasks have a live lease. */
  readonly live: number;
  /** While as many run as may: some of them, up to 10, the oldest first. Else none. */
  readonly by: readonly BlockingTask[];
  /** How many have started in the window of the rate that is under way. */
  readonly started: number;
  /** While the rate is used up: when the next window may begin. Else null. */
  readonly usedUpUntil: string | null;
}

/**
 * The limits of tasks. The newest declaration of a limit is the one that counts. It holds for claims that begin later: tasks
 * that run already count, and go on running.
 */
export interface TaskLimits {
  /** Sets a limit. A repeated declaration writes nothing. */
  declare(request: DeclareLimitRequest, options?: CallOptions): Promise<DeclareLimitOutcome>;
  /** All limits of a namespace, by scope and name. */
  list(namespace: string): Promise<readonly LimitView[]>;
  /** @returns whether there was one */
  remove(key: LimitKey): Promise<boolean>;
}

/** The most limits of one namespace. */
export const MOST_LIMITS = 1_000;
