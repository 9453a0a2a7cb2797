/** What lists and details show of tasks. */
import type { Concurrency, Json, TaskState } from "./values.js";

/** One claim of a task and how it ended. */
export interface Attempt {
  readonly attempt: number;
  readonly holder: string;
  readonly grantId: string;
  readonly token: number;
  /** The TTL of the claim or of its last heartbeat; 0 for grants from before the store recorded it. */
  readonly ttlMs: number;
  readonly startedAt: string;
  /** Time of the last heartbeat; null if there was none. */
  readonly heartbeatAt: string | null;
  readonly endedAt: string | null;
  /** null while it runs. */
  readonly result: "done" | "failed" | "expired" | "returned" | "cancelled" | null;
  /** Why it failed, or was put off. */
  readonly error: string | null;
  readonly progress: Json;
}

/** The public view of a task, without lease ids and large payloads. Times are the store's, as ISO 8601. */
export interface TaskView {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  readonly priority: number;
  readonly state: TaskState;
  /** In a list, absent if its JSON is larger than 1 KiB: then `dataPreview` is its beginning, and `get` returns it. */
  readonly data?: Json;
  /** Only in a list, and only instead of `data`: the first 200 characters of its JSON, and an ellipsis. */
  readonly dataPreview?: string;
  /** Null until the task is done. Absent in a list if it is large, like `data`. */
  readonly output?: Json;
  /** Only in a list, instead of `output`. */
  readonly outputPreview?: string;
  /** Absent in a list if it is large, like `data`. */
  readonly progress?: Json;
  /** Only in a list, instead of `progress`. */
  readonly progressPreview?: string;
  /** The error of the last attempt that failed. One that is larger than 1 KiB is cut in a list, like a preview. */
  readonly error: string | null;
  readonly dedupeKey: string | null;
  /** As the task declares it; null if it runs whatever else runs. */
  readonly concurrency: Concurrency | null;
  readonly version: number;
  readonly attempt: number;
  readonly failures: number;
  readonly crashes: number;
  readonly maxAttempts: number;
  readonly crashLimit: number;
  /** How long an attempt may run, in milliseconds; null: there is no limit. */
  readonly maxRunMs: number | null;
  /** When its first attempt must have begun; null: at any time. */
  readonly startBy: string | null;
  /** How often it was put off: requeued with a delay. */
  readonly postponed: number;
  readonly createdAt: string;
  readonly scheduledAt: string;
  /** Of the last grant, as are heartbeatAt, expiresAt, holder, grantId and token; null before the first grant. */
  readonly startedAt: string | null;
  readonly heartbeatAt: string | null;
  readonly expiresAt: string | null;
  readonly holder: string | null;
  readonly grantId: string | null;
  readonly token: number | null;
  /** Of the running grant; null unless running. */
  readonly remainingMs: number | null;
  readonly finishedAt: string | null;
}

/** A task with all that is known of it, its data and attempts included. */
export interface TaskDetails extends TaskView {
  readonly data: Json;
  readonly output: Json;
  readonly progress: Json;
  /** Of the last attempt that recorded one; null if none has. */
  readonly checkpoint: Json;
  /**
   * Oldest first, including the running one. The last 100 at most, of which older ones are left out if all their
   * errors and progress exceed 1 MiB: `attempt` is the number of each.
   */
  readonly attempts: readonly Attempt[];
}
