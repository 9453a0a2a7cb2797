/** Bodies and answers of /api/tasks. The fields of the original task API keep its snake_case names. */
import type { Page } from "../lease/index.js";
import type * as port from "../tasks/index.js";
import type { Failed, OutcomeOf } from "./failed.js";

/**
 * An id as it is written in the path of a request. The first letter of a plain word is escaped too: `/api/tasks/counts` counts
 * the tasks, and `/api/tasks/%63ounts` is the task with that id.
 */
export function taskInPath(id: string): string {
  const [first = ""] = id;
  return /^[a-z]+$/.test(id)
    ? `%${first.charCodeAt(0).toString(16)}${id.slice(1)}`
    : encodeURIComponent(id);
}

/** Everything except the data has a default. */
export interface NewTask
  extends Partial<
    Omit<port.NewTask, "namespace" | "data" | "scheduledAt" | "backoff" | "retain" | "concurrency">
  > {
  readonly task_data: port.Json;
  /** Default: none. `perKey` is 1 and `order` is `fifo` by default. */
  readonly concurrency?: (Pick<port.Concurrency, "key"> & Partial<port.Concurrency>) | undefined;
  /** Default: a second, an hour, twice as long each time, half of it random. */
  readonly backoff?: Partial<port.TaskBackoff>;
  /** Default: seven days and thirty days. */
  readonly retain?: Partial<port.Retain>;
  /** ISO 8601 with a zone; null, the default: at once. */
  readonly scheduled_at?: string | null;
}
/** `duplicate`: an unfinished task has the same kind and dedupeKey; its id. */
export interface Enqueued {
  readonly id: string;
  readonly status: "enqueued" | "duplicate" | "conflict";
}

/** The two spellings of a TTL, of which a request uses at most one. Default: 30 s. */
interface Ttl {
  readonly ttlMs?: number;
  readonly ttlSeconds?: number;
}

export interface NextRequest extends Ttl {
  /** Identity of the worker's process. */
  readonly processor: string;
  /** Default: 1. */
  readonly limit?: number;
  /** How long to wait for a task if there is none; default 0. */
  readonly waitMs?: number;
  /** Default: the queue `default`. */
  readonly queues?: readonly string[];
  /** Only tasks of these kinds; null, the default: of any. */
  readonly kinds?: readonly string[] | null;
  /** The largest version of each of the `kinds` that the worker can handle. Default 1. */
  readonly versions?: Readonly<Record<string, number>> | undefined;
  /** How long tasks with a `maxRunMs` are held after it. Default 6,000. */
  readonly graceMs?: number | undefined;
  /** A stuck worker says how many abandoned handlers still run in it. It gets no task, and is shown to operators. */
  readonly abandoned?: number | undefined;
  /** Chosen by the caller: a repeated request of the same processor returns the same tasks, whatever else it asks. Secret. */
  readonly claimId?: string;
}
/** The server answers 204 without a body if there is no task. */
export interface NextAnswer {
  readonly tasks: readonly ClaimedTask[];
  /** How long the claim waited, in milliseconds, before these leases began: trust counts from the request, plus `waitedMs`. */
  readonly waitedMs: number;
}

interface Identity {
  readonly id: string;
  readonly scheduled_at: string;
  readonly kind: string;
  readonly queue: string;
  readonly priority: number;
  readonly state: port.TaskState;
  /** How often it was claimed. */
  readonly attempt: number;
  readonly failures: number;
  readonly crashes: number;
  readonly maxAttempts: number;
  readonly dedupeKey: string | null;
  /** Of the kind, for which the data is. */
  readonly version: number;
}

export interface ClaimedTask extends Identity {
  readonly task_data: port.Json;
  readonly processor: string;
  readonly leaseId: string;
  readonly fencingToken: number;
  readonly ttlMs: number;
  readonly remainingMs: number;
  readonly must_heartbeat_before: string | null;
  /** The holder before, if the task was handed over. */
  readonly previousProcessor: string | null;
  /** The last checkpoint of an earlier attempt; null if there was none. */
  readonly checkpoint: port.Json;
  readonly maxRunMs: number | null;
  readonly postponed: number;
}

type Previews = "dataPreview" | "outputPreview" | "progressPreview";
/** A task in a list. `task_data`, `task_output` and `progress` are absent if they are large: then there is a preview. */
export interface Task extends Identity, Pick<port.TaskView, Previews | "progress"> {
  readonly task_data?: port.Json;
  readonly concurrency: port.Concurrency | null;
  readonly crashLimit: number;
  /** How long an attempt may run, in milliseconds; null: there is no limit. */
  readonly maxRunMs: number | null;
  /** When its first attempt must have begun; null: at any time. */
  readonly startBy: string | null;
  /** How often it was put off. */
  readonly postponed: number;
  /** Of the last grant, like grantId and fencingToken; null before the first. */
  readonly processor: string | null;
  readonly grantId: string | null;
  readonly fencingToken: number | null;
  readonly started_at: string | null;
  readonly last_heartbeat_at: string | null;
  readonly must_heartbeat_before: string | null;
  /** Null unless running. */
  readonly remainingMs: number | null;
  readonly processed_at: string | null;
  readonly task_output?: port.Json;
  /** Of the last attempt that failed; in a list, its beginning if it is large. */
  readonly error: string | null;
  readonly createdAt: string;
}
export interface Attempt extends Omit<port.Attempt, "holder" | "token"> {
  readonly processor: string;
  readonly fencingToken: number;
}
export interface TaskDetails extends Omit<Task, Previews> {
  readonly task_data: port.Json;
  readonly task_output: port.Json;
  readonly progress: port.Json;
  readonly checkpoint: port.Json;
  /** Oldest first, the running one included. */
  readonly attempts: readonly Attempt[];
}
export type TaskPage = Page<Task>;
/** Whose results are asked for, in one request. */
export interface ResultsRequest {
  readonly ids: readonly string[];
  /** For at least this long, GET /v1/events?of=results reports the end of those that have not ended. Default 0. */
  readonly notifyMs?: number;
}
export type TaskResult = port.TaskResult;
/** In the order of the ids. */
export type TaskResults = readonly Omit<TaskResult, "id">[];
/** Those with the most pending tasks first. */
export interface BlockedKeys {
  readonly items: readonly port.BlockedKey[];
}
/** The limit of a kind or a queue: at least one of `running` and `rate`. */
export interface TaskLimitRequest
  extends Pick<port.LimitKey, "scope" | "name">,
    Partial<port.TaskLimit> {}
export interface TaskLimitDeclared extends Pick<port.LimitKey, "scope" | "name"> {
  readonly change: "added" | "changed" | "none";
}
export interface TaskLimitRemoved extends Pick<port.LimitKey, "scope" | "name"> {
  /** False: there was none. */
  readonly wasDeclared: boolean;
}
/** By scope and name. */
export interface TaskLimits {
  readonly items: readonly Omit<port.LimitView, "namespace">[];
}
export type TaskStatistics = port.TaskStatistics;
export type Counts = Readonly<Record<port.TaskState, number>>;

/** What each request about a claimed task carries. */
interface Grant {
  readonly id: string;
  readonly leaseId: string;
  readonly fencingToken: number;
  /** For people who read the request; leaseId and fencingToken decide. */
  readonly processor?: string;
}
export interface HeartbeatRequest extends Grant, Ttl {
  /** Replaces the progress kept with the attempt. */
  readonly progress?: port.Json;
  /** Replaces the checkpoint of the task. At most 64 KiB as JSON. */
  readonly checkpoint?: port.Json;
}
export interface CompleteRequest extends Grant {
  /** Default: null. */
  readonly task_output?: port.Json;
}
export interface FailRequest extends Grant {
  readonly error: string;
  /** Overrides the task's backoff; null, the default: by the task's own numbers. */
  readonly retryInMs?: number | null;
  /** The task is dead at once, whatever attempts are left. */
  readonly final?: boolean;
}
export interface ReturnRequest extends Grant {
  /** Puts the task off: it is due again after this time. Null, the default: it keeps its place in the queue. */
  readonly retryInMs?: number | null;
  /** Why, for readers; null, the default: nothing. */
  readonly reason?: string | null;
}

export type HeartbeatOutcome =
  | {
      readonly status: "renewed";
      readonly ttlMs: number;
      readonly remainingMs: number;
      readonly must_heartbeat_before: string | null;
    }
  | port.Refused
  | Failed;
export type CompleteOutcome =
  | { readonly status: "completed"; readonly repeated: boolean; readonly task_output: port.Json }
  | port.Refused
  | Failed;
export type FailOutcome = OutcomeOf<port.FailOutcome>;
export type ReturnOutcome = OutcomeOf<port.RequeueOutcome>;
export type AdminOutcome = OutcomeOf<port.AdminOutcome>;
