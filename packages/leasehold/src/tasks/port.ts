/**
 * The port between tasks and the databases that keep them. A task is a row with a lease on it:
 * claim is acquire, heartbeat is renew, and complete, fail and requeue are a compare-and-swap on
 * (id, leaseId, token, running, not expired), so that a late owner is refused.
 *
 * The same promises as in core/port.ts: one outcome per request in order, the same task may stand
 * several times in a batch, failures are outcomes, durations travel, deadlines are the store's.
 *
 *             claim                complete
 *   pending ─────────▶ running ────────────────▶ done
 *    ▲  ▲ ▲               │ │ fail, attempts left: back to pending, after a backoff
 *    │  │ └───────────────┘ │ fail, none left ───▶ dead
 *    │  └── expiry, requeue┤ expiry, too many crashes ─▶ dead
 *    │                      └ cancel ───▶ cancelled   (also from pending)
 *    └─ retry: from dead or cancelled
 */
import type {
  CallOptions,
  Failed,
  LeaseState,
  LeaseView,
  Page,
  Term,
  WatchEvent,
} from "../core/index.js";

export type { CallOptions, Failed, Page, Term };

/** What a task carries and yields: anything that JSON can say. */
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

export interface NewTask {
  readonly namespace: string;
  /** A UUID chosen by the caller: enqueueing it again after a lost answer adds nothing. */
  readonly id: string;
  /** What has to be done; selects the handler. 1-256 bytes. */
  readonly kind: string;
  readonly queue: string;
  /** Smaller runs sooner; -32,768 to 32,767. */
  readonly priority: number;
  readonly data: Json;
  /** ISO 8601, compared with the store's clock; null: at once. */
  readonly scheduledAt: string | null;
  /** At most one unfinished task (pending or running) per namespace, kind and key. */
  readonly dedupeKey: string | null;
  /** Failures after which the task is dead. */
  readonly maxAttempts: number;
  /** Expired leases after which the task is dead: it may be what kills its workers. */
  readonly crashLimit: number;
  /**
   * The n-th failure is retried after a random time between half and the whole of
   * min(backoffMs x 2^(n-1), maxBackoffMs).
   */
  readonly backoffMs: number;
  readonly maxBackoffMs: number;
}
export type EnqueueOutcome =
  | { readonly status: "enqueued"; readonly id: string }
  /** An unfinished task with the same dedupeKey is there already: its id. */
  | { readonly status: "duplicate"; readonly id: string }
  | Failed;

/** A client in the middle of the caller's own SQL transaction: a pg client, PGlite's tx, kysely's... */
export interface SqlClient {
  query(text: string, values: unknown[]): Promise<{ rows: unknown[] }>;
}
export interface EnqueueOptions extends CallOptions {
  /** Enqueue inside this transaction: the tasks exist if and when it commits. SQL stores only. */
  readonly client?: SqlClient;
}

export interface ClaimRequest {
  readonly namespace: string;
  /** 128 random bits; a repeated claim answers the same tasks. Secret: lease ids follow from it. */
  readonly claimId: string;
  readonly holder: string;
  readonly queues: readonly string[];
  /** Only tasks of these kinds; null: of any. */
  readonly kinds: readonly string[] | null;
  /** At most this many tasks. */
  readonly limit: number;
  readonly ttlMs: number;
  /** How long an empty claim may wait in the store; only with `capabilities.remoteWait`. */
  readonly waitMs?: number;
}
export interface ClaimOptions extends CallOptions {
  /** The claimer has gone: a wait in the store ends with no tasks. Stores that cannot wait ignore it. */
  readonly signal?: AbortSignal;
}
export interface ClaimedTask extends Term {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  readonly priority: number;
  readonly data: Json;
  /** `taskLeaseId(claimId, id)`. */
  readonly leaseId: string;
  readonly token: number;
  /** 1 for the first claim of this task. */
  readonly attempt: number;
  readonly failures: number;
  readonly crashes: number;
  readonly maxAttempts: number;
  readonly dedupeKey: string | null;
  readonly scheduledAt: string;
  /** Who held it before, when it has been handed over. */
  readonly previousHolder: string | null;
}
/** Pending tasks that are due, by priority, scheduledAt, id. Expired ones come back by `reap`. */
export type ClaimOutcome =
  | { readonly status: "claimed"; readonly tasks: readonly ClaimedTask[] }
  | Failed;

export interface TaskKey {
  readonly namespace: string;
  readonly id: string;
}
export interface TaskGrant extends TaskKey {
  readonly leaseId: string;
  readonly token: number;
}

/**
 * expired: the grant has expired, whether or not another holder took over; taken: a newer grant
 * exists; cancelled; finished: done or dead already; unknown: no such task.
 */
export type RefusalReason = "expired" | "taken" | "cancelled" | "finished" | "unknown";
export interface Refused {
  readonly status: "refused";
  readonly reason: RefusalReason;
}

export interface HeartbeatRequest extends TaskGrant {
  readonly ttlMs: number;
  /** Replaces the progress kept with the attempt. */
  readonly progress?: Json;
}
export type HeartbeatOutcome = ({ readonly status: "renewed" } & Term) | Refused | Failed;

export interface CompleteRequest extends TaskGrant {
  readonly output: Json;
}
/** A repeated complete of the same grant answers the output that is stored. */
export type CompleteOutcome =
  | { readonly status: "completed"; readonly repeated: boolean; readonly output: Json }
  | Refused
  | Failed;

export interface FailRequest extends TaskGrant {
  readonly error: string;
  /** Overrides the task's backoff; null: by the task's own numbers. */
  readonly retryInMs: number | null;
  /** The error will not go away: dead at once, whatever attempts are left. */
  readonly final?: boolean;
}
export type FailOutcome =
  | {
      readonly status: "recorded";
      readonly state: "pending" | "dead";
      /** How long until it may be claimed again; null when dead. */
      readonly retryInMs: number | null;
    }
  | Refused
  | Failed;

/** Back to pending, at once and without counting as a failure or a crash. */
export type RequeueOutcome = { readonly status: "returned" } | Refused | Failed;

/** `conflict`: the task's state does not allow it. */
export type AdminOutcome =
  | { readonly status: "ok" | "conflict"; readonly state: TaskState }
  | { readonly status: "unknown" }
  | Failed;

/** One claim of a task and how it ended. */
export interface Attempt {
  readonly attempt: number;
  readonly holder: string;
  readonly grantId: string;
  readonly token: number;
  /** As claimed, or as the last heartbeat set it; 0 of grants too old for their store to know. */
  readonly ttlMs: number;
  readonly startedAt: string;
  /** The last one; null if there was none. */
  readonly heartbeatAt: string | null;
  readonly endedAt: string | null;
  /** null while it runs. */
  readonly result: "done" | "failed" | "expired" | "returned" | "cancelled" | null;
  readonly error: string | null;
  readonly progress: Json;
}

/** A task as people and lists see it: without lease ids. Times are the store's, as ISO 8601. */
export interface TaskView {
  readonly id: string;
  readonly kind: string;
  readonly queue: string;
  readonly priority: number;
  readonly state: TaskState;
  readonly data: Json;
  readonly output: Json;
  /** Of the last attempt that failed. */
  readonly error: string | null;
  readonly progress: Json;
  readonly dedupeKey: string | null;
  readonly attempt: number;
  readonly failures: number;
  readonly crashes: number;
  readonly maxAttempts: number;
  readonly crashLimit: number;
  readonly createdAt: string;
  readonly scheduledAt: string;
  /** Of the last grant, like holder, grantId, token, heartbeatAt and expiresAt; null before the first. */
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
export interface TaskDetails extends TaskView {
  /** Oldest first, the running one included. */
  readonly attempts: readonly Attempt[];
}

export interface TaskQuery {
  readonly namespace: string;
  readonly states?: readonly TaskState[];
  readonly queue?: string;
  readonly kind?: string;
  /** At most this many; default 100. */
  readonly limit?: number;
  readonly cursor?: string;
}

export interface TaskLeaseQuery {
  readonly namespace: string;
  /** Only grants in one of these states; default any. */
  readonly states?: readonly LeaseState[];
  /** Only grants with a heartbeat; default false. */
  readonly renewedOnly?: boolean;
  /** At most this many; default 100. */
  readonly limit?: number;
  readonly cursor?: string;
}

/** A task whose lease expired, and its new state. */
export interface Reaped extends TaskKey {
  readonly holder: string;
  readonly token: number;
  readonly state: "pending" | "dead";
}

/** A notification that a task of the namespace may be claimable. */
export type TaskWatchEvent =
  | { readonly type: "ready"; readonly queue: string }
  | Extract<WatchEvent, { type: "resync" }>;

export interface TaskCapabilities {
  readonly ttl: { readonly minMs: number; readonly maxMs: number; readonly stepMs: number };
  readonly watch: "push" | "poll";
  /** An empty claim can wait in the store itself (`waitMs`), as over HTTP. */
  readonly remoteWait: boolean;
  /** Whether the service behind this store already reaps, as a server does. */
  readonly reaps: boolean;
}

export interface TaskStore {
  readonly capabilities: TaskCapabilities;
  enqueue(tasks: readonly NewTask[], options?: EnqueueOptions): Promise<EnqueueOutcome[]>;
  claim(request: ClaimRequest, options?: ClaimOptions): Promise<ClaimOutcome>;
  heartbeat(
    requests: readonly HeartbeatRequest[],
    options?: CallOptions,
  ): Promise<HeartbeatOutcome[]>;
  complete(requests: readonly CompleteRequest[], options?: CallOptions): Promise<CompleteOutcome[]>;
  fail(requests: readonly FailRequest[], options?: CallOptions): Promise<FailOutcome[]>;
  requeue(requests: readonly TaskGrant[], options?: CallOptions): Promise<RequeueOutcome[]>;
  /** Ends pending and running tasks; a running one's holder is refused from then on. */
  cancel(tasks: readonly TaskKey[]): Promise<AdminOutcome[]>;
  /** A dead or cancelled task starts over; a pending one becomes due now. Counters return to 0. */
  retry(tasks: readonly TaskKey[]): Promise<AdminOutcome[]>;
  get(task: TaskKey): Promise<TaskDetails | null>;
  /** Newest id first. */
  list(query: TaskQuery): Promise<Page<TaskView>>;
  counts(namespace: string): Promise<Record<TaskState, number>>;
  /**
   * Grants on tasks, running and ended, as leases on resources named `task:ID`. Newest task id first,
   * of one task the newest grant first. done, failed and returned count as `released`, cancelled as
   * `revoked`.
   */
  leases(query: TaskLeaseQuery): Promise<Page<LeaseView>>;
  /** Ends expired leases of every namespace: back to pending, or dead at the crash limit. */
  reap(): Promise<readonly Reaped[]>;
  /** First a `resync`, sent once the subscription stands. With `watch: "poll"` nothing else. */
  watch(namespace: string, options: { signal: AbortSignal }): AsyncIterable<TaskWatchEvent>;
  close(): Promise<void>;
}

/** What the generator should be doing: kept in the store, so that every instance answers alike. */
export interface GeneratorWanted {
  readonly running: boolean;
  /** Tasks per second, 0.01 to 1,000. */
  readonly ratePerSecond: number;
}
export interface GeneratorState {
  /** `{ running: false, ratePerSecond: 1 }` until the first write. */
  read(namespace: string): Promise<GeneratorWanted>;
  write(namespace: string, change: Partial<GeneratorWanted>): Promise<GeneratorWanted>;
}
