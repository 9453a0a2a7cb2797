/**
 * The port between tasks and the databases that keep them. A task is a row with a lease on it:
 * claim is acquire, heartbeat is renew, and complete, fail and requeue are a compare-and-swap on
 * (id, leaseId, token, running, not expired), so that the store refuses a holder whose grant has ended.
 *
 * A task store makes the promises of lease/port.ts. It returns one outcome per request, in order. The same task
 * may occur several times in a batch. A failure is an outcome. Requests and outcomes carry durations; the store
 * keeps the deadlines.
 *
 *             claim                complete
 *   pending ─────────▶ running ────────────────▶ done
 *    ▲  ▲ ▲               │ │ fail, attempts left: back to pending, after a backoff
 *    │  │ └───────────────┘ │ fail, none left ───▶ dead
 *    │  └── expiry, requeue┤ expiry, too many crashes ─▶ dead
 *    │                      └ cancel ───▶ cancelled   (also from pending)
 *    ├─ retry: from dead, cancelled or expired
 *    └─ not begun within startByMs ───▶ expired
 */
import type {
  CallOptions,
  Failed,
  LeaseView,
  Page,
  SqlTransaction,
  Term,
  WatchEvent,
} from "../lease/index.js";
import type { BlockedKey, BlockedKeysQuery, BlockingTask, KeyName } from "./blocked-keys.js";
import type { DueKind, DueKindsQuery } from "./due-kinds.js";
import type { TaskLimits } from "./limits-port.js";
import type { TaskLeaseQuery, TaskQuery } from "./queries.js";
import type { Concurrency, Json, Rate, TaskBackoff, TaskKey, TaskState } from "./values.js";
import type { TaskDetails, TaskView } from "./views.js";
import type { TaskResult, TaskWaits } from "./waits-port.js";

export type { TaskLeaseQuery, TaskQuery } from "./queries.js";
export {
  DEFAULT_GRACE_MS,
  FIRST_VERSION,
  NO_TASKS,
  TASK_STATES,
  versionTaken,
} from "./values.js";
export type { Attempt, TaskDetails, TaskView } from "./views.js";
export type {
  ReadResultsOptions,
  TaskEndEvent,
  TaskStatistics,
  TaskStats,
  TaskStatsQuery,
} from "./waits-port.js";
export type {
  CallOptions,
  Concurrency,
  Failed,
  Json,
  Page,
  Rate,
  TaskBackoff,
  TaskKey,
  TaskResult,
  TaskState,
  TaskWaits,
  Term,
};

/** A task to enqueue. */
export interface NewTask {
  readonly namespace: string;
  /**
   * Any text of 1 to 200 characters without control characters, chosen by the caller and kept as it is; not `.` or `..`.
   * Enqueueing the same task again after a lost response adds nothing. Another kind, queue or data under the same id is a
   * conflict.
   */
  readonly id: string;
  /** The kind of work, which selects the handler. 1-256 bytes. */
  readonly kind: string;
  readonly queue: string;
  /** Tasks with a smaller number run first; -32,768 to 32,767. */
  readonly priority: number;
  readonly data: Json;
  /** When the task becomes due, by the store's clock, as ISO 8601; null: at once. */
  readonly scheduledAt: string | null;
  /** At most one unfinished task (pending or running) per namespace, kind and key. */
  readonly dedupeKey: string | null;
  /** Failures after which the task is dead. */
  readonly maxAttempts: number;
  /** Expired leases after which the task is dead, because it may be the task that crashes its workers. */
  readonly crashLimit: number;
  /**
   * The n-th failure is retried after min(firstMs x factor^(n-1), longestMs), of which the share `jitter` is random.
   */
  readonly backoff: TaskBackoff;
  /**
   * How long one attempt may run, in milliseconds. Its lease ends at the latest `graceMs` of its claim after that, however
   * often its holder renews it. Null, the default: as long as its holder renews the lease.
   */
  readonly maxRunMs?: number | null;
  /**
   * How long after `scheduledAt` its first attempt may begin, in milliseconds: later the task ends as `expired`. Null, the
   * default: at any time.
   */
  readonly startByMs?: number | null;
  /** How long the task is kept once it has ended; default: for ever. */
  readonly retain?: Retain;
  /** Default: it runs whatever else runs. */
  readonly concurrency?: Concurrency | undefined;
  /** Of the kind, 1 to 32,767: workers with an earlier one leave the task alone. Default 1. */
  readonly version?: number;
}
/** In milliseconds; null: for ever. */
export interface Retain {
  readonly doneMs: number | null;
  /** Also of cancelled and expired tasks. */
  readonly deadMs: number | null;
}

/** What became of a new task. */
export type EnqueueOutcome =
  | { readonly status: "enqueued"; readonly id: string }
  /** An unfinished task has the same dedupeKey: this is its id. */
  | { readonly status: "duplicate"; readonly id: string }
  /** A task with this id exists, with another kind, queue or data: nothing was added. */
  | { readonly status: "conflict"; readonly id: string }
  | Failed;

/** Options of `enqueue`. */
export interface EnqueueOptions extends CallOptions {
  /** Enqueues in this transaction: the tasks exist once it commits. SQL stores only. Default: in one of its own. */
  readonly client?: SqlTransaction;
}

/** Asks for due tasks. Each comes with a lease of `ttlMs` milliseconds. */
export interface ClaimRequest {
  readonly namespace: string;
  /**
   * 192 random bits as 48 hex digits. A repeated claim of the same holder returns the same tasks, those that still run, whatever queues,
   * kinds, limit and TTL it asks for; of another holder, it is refused while one of them still runs. Secret, because
   * lease ids are derived from it.
   */
  readonly claimId: string;
  readonly holder: string;
  readonly queues: readonly string[];
  /** Only tasks of these kinds, at least one; null: of any. */
  readonly kinds: readonly string[] | null;
  /** The largest version of each of the `kinds` that the worker can handle. Default 1. */
  readonly versions?: Readonly<Record<string, number>> | undefined;
  /** At most this many tasks. */
  readonly limit: number;
  readonly ttlMs: number;
  /**
   * For tasks with a `maxRunMs`: how long they are held after it, so that their holder can end and report them, in
   * milliseconds. Default 6,000.
   */
  readonly graceMs?: number | undefined;
  /** How long an empty claim may wait in the store; only with `capabilities.remoteWait`. */
  readonly waitMs?: number;
  /**
   * A worker that is stuck says how many abandoned handlers still run in it. It gets no task, and is shown to operators. It
   * says so only with `capabilities.remoteWait`: behind other stores there is no server that could show it.
   */
  readonly abandoned?: number | undefined;
}

/** Options of `claim`. */
export interface ClaimOptions extends CallOptions {
  /** Aborts when the caller is gone: a wait in the store then ends with no tasks. Stores that cannot wait ignore it. Default: none. */
  readonly signal?: AbortSignal;
}

/** A task in the hands of a worker, with the term of its lease. */
export interface ClaimedTask extends Term {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  readonly priority: number;
  readonly data: Json;
  /**
   * 48 hex digits, of which the first 16 are the grant id. With `d` for the SHA-256 of the claimId in hex: its digits 0 to 7,
   * 8 digits that differ from task to task (the last ones of its number), and the digits 16 to 47 of `d`.
   */
  readonly leaseId: string;
  readonly token: number;
  /** 1 for the first claim of this task. */
  readonly attempt: number;
  readonly failures: number;
  readonly crashes: number;
  readonly maxAttempts: number;
  readonly dedupeKey: string | null;
  readonly scheduledAt: string;
  readonly version: number;
  /** How long the attempt may run, in milliseconds; null: there is no limit. */
  readonly maxRunMs: number | null;
  /** How often it was put off: requeued with a `retryInMs`. */
  readonly postponed: number;
  /** The holder of the previous attempt; null if there was none. */
  readonly previousHolder: string | null;
  /** The last checkpoint of an earlier attempt; null if there was none. */
  readonly checkpoint: Json;
}
/**
 * Pending tasks that are due, by priority, scheduledAt and the order in which they were enqueued. `reap` makes tasks with expired leases pending.
 *
 * The data of a claim is bounded: the claim ends before the task with which its data and checkpoints would exceed 16 MiB of JSON, but
 * never before the first. A claim that leaves due tasks for that reason notifies those who `watch`.
 */
export type ClaimOutcome =
  | {
      readonly status: "claimed";
      readonly tasks: readonly ClaimedTask[];
      /**
       * How long the claim waited, in milliseconds, before it asked for these tasks: their leases began no earlier than that
       * after the claim was sent. Default 0.
       */
      readonly waitedMs?: number;
      /** Of a claim without tasks: when a rate that is used up may let tasks start again, in milliseconds. */
      readonly retryInMs?: number;
    }
  | Failed;

/** The right to one task: the id and token of the lease with which it was claimed. The lease id is secret. */
export interface TaskGrant extends TaskKey {
  readonly leaseId: string;
  readonly token: number;
}

/**
 * expired: the grant has expired, or ended by a fail, a requeue or an operator, and no newer one exists; taken: a newer
 * grant exists; cancelled; finished: done or dead already; unknown: no such task.
 */
export type RefusalReason = "expired" | "taken" | "cancelled" | "finished" | "unknown";

/** The report of a holder came too late, and was not applied. */
export interface Refused {
  readonly status: "refused";
  readonly reason: RefusalReason;
}

/** Extends the lease of a task to `ttlMs` milliseconds from now. */
export interface HeartbeatRequest extends TaskGrant {
  readonly ttlMs: number;
  /** Replaces the progress kept with the attempt. */
  readonly progress?: Json;
  /** Replaces the checkpoint kept with the task, which its later claims return. */
  readonly checkpoint?: Json;
}

/** The answer to a heartbeat. */
export type HeartbeatOutcome = ({ readonly status: "renewed" } & Term) | Refused | Failed;

/** Completes a task with its output. */
export interface CompleteRequest extends TaskGrant {
  readonly output: Json;
}
/**
 * A repeated complete of the same grant returns the stored output. In a batch, those of one namespace whose outputs
 * would exceed 256 KiB together fail with `applied: "no"`, except for the first: repeat them in another batch.
 */
export type CompleteOutcome =
  | { readonly status: "completed"; readonly repeated: boolean; readonly output: Json }
  | Refused
  | Failed;

/** Reports that an attempt has failed. */
export interface FailRequest extends TaskGrant {
  readonly error: string;
  /** Delay before the task may be claimed again, in milliseconds; null: the task's own backoff. */
  readonly retryInMs: number | null;
  /** The error is permanent: the task is dead at once, even with attempts left. */
  readonly final?: boolean;
}
/** A repeated fail of the same grant changes nothing, whatever it says: the outcome is that of the first. */
export type FailOutcome =
  | {
      readonly status: "recorded";
      /** This grant had recorded a failure before, which counts; the content of this request does not. */
      readonly repeated: boolean;
      readonly state: "pending" | "dead";
      /** How long until it may be claimed again; null when dead. */
      readonly retryInMs: number | null;
    }
  | Refused
  | Failed;

/** Requeues a task. */
export interface RequeueRequest extends TaskGrant {
  /** Puts the task off: it is due again after this time, in milliseconds. Null, the default: it keeps its place in the queue. */
  readonly retryInMs?: number | null;
  /** Why, for readers; kept with the attempt. Null, the default: nothing. */
  readonly reason?: string | null;
}
/** Back to pending, without counting as a failure or a crash. */
export type RequeueOutcome =
  | { readonly status: "returned"; readonly repeated: boolean }
  | Refused
  | Failed;

/** `conflict`: the task's state does not allow it. */
export type AdminOutcome =
  | { readonly status: "ok" | "conflict"; readonly state: TaskState }
  | { readonly status: "unknown" }
  | Failed;

/** A task whose lease expired, and its new state; or one that has not begun in time, which is expired. */
export type Reaped = TaskKey &
  (
    | { readonly holder: string; readonly token: number; readonly state: "pending" | "dead" }
    | { readonly holder: null; readonly token: null; readonly state: "expired" }
  );

/** A notification that a task of the namespace may be claimable. */
export type TaskWatchEvent =
  | {
      readonly type: "ready";
      readonly queue: string;
      /** It becomes due in so many milliseconds, at most {@link SOON_MS}. Absent: it is due. */
      readonly inMs?: number;
    }
  | Extract<WatchEvent, { type: "resync" }>;

/**
 * A task that is scheduled for within this time is announced when it is added, so that a worker claims it in time. A later one
 * is found by a poll, so that no worker keeps timers for days.
 */
export const SOON_MS = 600_000;

/** What a task store can do, and within which bounds. */
export interface TaskCapabilities {
  readonly ttl: { readonly minMs: number; readonly maxMs: number; readonly stepMs: number };
  readonly watch: "push" | "poll";
  /** An empty claim can wait in the store itself (`waitMs`), as over HTTP. */
  readonly remoteWait: boolean;
  /** Whether the service behind this store already reaps, as a server does. */
  readonly reaps: boolean;
}

/** The port of tasks: what a database offers to clients and workers. Each request of a batch is atomic on its own. */
export interface TaskStore extends TaskWaits {
  readonly capabilities: TaskCapabilities;
  enqueue(tasks: readonly NewTask[], options?: EnqueueOptions): Promise<EnqueueOutcome[]>;
  claim(request: ClaimRequest, options?: ClaimOptions): Promise<ClaimOutcome>;
  heartbeat(
    requests: readonly HeartbeatRequest[],
    options?: CallOptions,
  ): Promise<HeartbeatOutcome[]>;
  complete(requests: readonly CompleteRequest[], options?: CallOptions): Promise<CompleteOutcome[]>;
  fail(requests: readonly FailRequest[], options?: CallOptions): Promise<FailOutcome[]>;
  requeue(requests: readonly RequeueRequest[], options?: CallOptions): Promise<RequeueOutcome[]>;
  /** Cancels pending and running tasks. From then on, the store refuses the calls of a running task's holder. */
  cancel(tasks: readonly TaskKey[]): Promise<AdminOutcome[]>;
  /** Makes dead, cancelled or expired tasks pending again, and pending ones due now. Failures and crashes return to 0. */
  retry(tasks: readonly TaskKey[]): Promise<AdminOutcome[]>;
  /** Deletes tasks that are not running, with their attempts: `ok` with the last state. A second delete is `unknown`. */
  delete(tasks: readonly TaskKey[]): Promise<AdminOutcome[]>;
  get(task: TaskKey): Promise<TaskDetails | null>;
  /**
   * The task that was enqueued last comes first. Reads no payload as a whole that a view does not have: a page of large tasks must stay small. A page
   * may have fewer than `limit` tasks, or none, and a cursor all the same: those passed over are bounded in memory.
   */
  list(query: TaskQuery): Promise<Page<TaskView>>;
  counts(namespace: string): Promise<Record<TaskState, number>>;
  /** Due pending tasks by queue, kind and version. Optional: without it, readers look at a page of `list`. */
  dueKinds?(query: DueKindsQuery): Promise<readonly DueKind[]>;
  /** Keys of which pending tasks wait for others, those with the most first. Optional: without it, readers do not see them. */
  blockedKeys?(query: BlockedKeysQuery): Promise<readonly BlockedKey[]>;
  /** The limits of kinds and queues, which its claims keep. Optional: without it, programs can declare none. */
  readonly limits?: TaskLimits;
  /**
   * Grants on tasks, running and ended, as leases on resources named `task:ID`. Those of the newest task
   * first, of one task the newest grant first. done, failed and returned count as `released`, cancelled as
   * `revoked`.
   */
  leases(query: TaskLeaseQuery): Promise<Page<LeaseView>>;
  /** Ends expired leases of every namespace: back to pending, or dead at the crash limit. Ends tasks that have not begun in time. */
  reap(): Promise<readonly Reaped[]>;
  /** Deletes ended tasks of every namespace that are to be kept no longer, at most `limit`, and returns how many. */
  collect(limit: number): Promise<number>;
  /** Yields a `resync` once the subscription is active. With `watch: "poll"` it yields nothing else. */
  watch(namespace: string, options: { signal: AbortSignal }): AsyncIterable<TaskWatchEvent>;
  close(): Promise<void>;
}

export type {
  DeclareLimitOutcome,
  DeclareLimitRequest,
  LimitKey,
  LimitScope,
  LimitView,
  TaskLimit,
  TaskLimits,
} from "./limits-port.js";
export type { BlockedKey, BlockedKeysQuery, BlockingTask, DueKind, DueKindsQuery, KeyName };
