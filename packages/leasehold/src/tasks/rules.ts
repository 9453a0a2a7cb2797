/**
 * The specification of the task port, as pure functions of (record or none, request, store time).
 * The memory store applies them; SQL says the same in its own words; the conformance suite holds
 * every store against them. The states and their transitions are drawn in port.ts.
 *
 * A record carries the task's last grant, which is judged like a lease: a holder may act on it iff
 * lease id and token are those of the last grant, the task is running and now < expiresAt, strictly.
 * Time alone refuses a late holder, whether or not the task was reaped or claimed again.
 *
 * Two counters decide when a task is dead, and only `retry` sets them back:
 * - failures: a holder said `fail`. Dead at the maxAttempts-th, or at once with `final`.
 * - crashes: a lease expired. Dead at the crashLimit-th.
 * A claim that was requeued or cancelled counts as neither.
 *
 * Two limits of time: no grant of a task with `maxRunMs` outlives that and the grace of its claim, whatever its holder
 * renews, and a task with `startByMs` that has not begun by then expires.
 */
import { invariant, taskLeaseId } from "../env/index.js";
import { ATTEMPTS_KEPT } from "./payloads.js";
import type {
  ClaimedTask,
  ClaimRequest,
  CompleteOutcome,
  CompleteRequest,
  EnqueueOutcome,
  FailOutcome,
  FailRequest,
  HeartbeatOutcome,
  HeartbeatRequest,
  Json,
  NewTask,
  RefusalReason,
  Refused,
  RequeueOutcome,
  RequeueRequest,
  TaskGrant,
  TaskState,
} from "./port.js";
import {
  type AttemptRecord,
  backoffMs,
  encodeJson,
  finished,
  isClaimable,
  isSameContent,
  NOTHING,
  type Result,
  storedError,
  type TaskRecord,
} from "./record.js";
import { DEFAULT_GRACE_MS, FIRST_VERSION } from "./values.js";

const atMost = (limitMs: number | null, ms: number) => Math.min(ms, limitMs ?? ms);

/** Outcomes without what only a store can add: its failures, and its clock as text. */
export type Decided<T> = T extends { status: "failed" } ? never : Omit<T, "expiresAt">;
export interface Decision<Outcome> {
  readonly record: TaskRecord | null;
  readonly outcome: Decided<Outcome>;
}

/**
 * @param rival an unfinished task of the same namespace, kind and dedupeKey, if there is one
 * @param seq the store's next number
 */
export function enqueue(
  record: TaskRecord | null,
  rival: TaskRecord | null,
  task: NewTask,
  nowMs: number,
  seq: number,
): Decision<EnqueueOutcome> {
  if (record) {
    // Whatever has become of the task since, a repeated request has been carried out.
    const isRepeated = isSameContent(record, { ...task, data: encodeJson(task.data) });
    return { record, outcome: { status: isRepeated ? "enqueued" : "conflict", id: task.id } };
  }
  if (rival) return { record, outcome: { status: "duplicate", id: rival.id } };
  const { startByMs = null, ...kept } = task;
  const scheduledAtMs = task.scheduledAt === null ? nowMs : Date.parse(task.scheduledAt);
  const created: TaskRecord = {
    ...kept,
    version: task.version ?? FIRST_VERSION,
    seq,
    data: encodeJson(task.data),
    state: "pending",
    output: NOTHING,
    checkpoint: NOTHING,
    error: null,
    failures: 0,
    crashes: 0,
    postponed: 0,
    createdAtMs: nowMs,
    scheduledAtMs,
    startByAtMs: startByMs === null ? null : scheduledAtMs + startByMs,
    finishedAtMs: null,
    deleteAtMs: null,
    last: null,
    earlier: [],
  };
  return { record: created, outcome: { status: "enqueued", id: task.id } };
}

/**
 * Claims one task that is claimable.
 * @param claimDigest `claimDigestOf` of the request's claimId
 * @param token makes the next token from the last one
 */
export function claim(
  record: TaskRecord,
  request: ClaimRequest,
  claimDigest: string,
  nowMs: number,
  token: (last: number) => number,
): Decision<ClaimedTask> & { readonly record: TaskRecord } {
  invariant(isClaimable(record, nowMs), "only pending tasks that are due are claimed");
  const before = record.last;
  const { maxRunMs = null } = record;
  const { graceMs = DEFAULT_GRACE_MS } = request;
  const untilMs = maxRunMs === null ? null : nowMs + maxRunMs + graceMs;
  const last: AttemptRecord = {
    attempt: (before?.attempt ?? 0) + 1,
    holder: request.holder,
    leaseId: taskLeaseId(claimDigest, record.seq),
    token: token(before?.token ?? 0),
    ttlMs: request.ttlMs,
    startedAtMs: nowMs,
    heartbeatAtMs: null,
    expiresAtMs: atMost(untilMs, nowMs + request.ttlMs),
    untilMs,
    endedAtMs: null,
    result: null,
    error: null,
    progress: NOTHING,
  };
  invariant(!before || last.token > before.token, "tokens of a task grow");
  const claimed: TaskRecord = {
    ...record,
    state: "running",
    last,
    earlier: before ? [...record.earlier, before].slice(1 - ATTEMPTS_KEPT) : record.earlier,
  };
  return { record: claimed, outcome: claimedTask(claimed, last, nowMs) };
}

/** What a repeated claim answers: the task, if it is still that claim's own. */
export function claimAgain(
  record: TaskRecord,
  claimDigest: string,
  nowMs: number,
): Decided<ClaimedTask> | null {
  const { last } = record;
  if (record.state !== "running") return null;
  if (last?.leaseId !== taskLeaseId(claimDigest, record.seq)) return null;
  return nowMs < last.expiresAtMs ? claimedTask(record, last, nowMs) : null;
}

/** What decides about a request under a grant. */
export interface Standing {
  readonly state: TaskState;
  /** Lease id and token are those of the last grant. */
  readonly own: boolean;
  /** now < expiresAt of the last grant. */
  readonly live: boolean;
}

/** Why a request under a grant is refused, or null if it is not. */
export function refusal(standing: Standing | null): RefusalReason | null {
  if (!standing) return "unknown";
  const { state, own, live } = standing;
  if (state === "done" || state === "dead" || state === "expired") return "finished";
  if (state === "cancelled") return "cancelled";
  if (!own) return "taken";
  // Back in the queue: it was reaped, or its holder requeued it.
  return state === "running" && live ? null : "expired";
}

export function heartbeat(
  record: TaskRecord | null,
  request: HeartbeatRequest,
  nowMs: number,
): Decision<HeartbeatOutcome> {
  const grant = liveGrant(record, request, nowMs);
  if ("reason" in grant) return { record, outcome: grant };
  const last: AttemptRecord = {
    ...grant.last,
    ttlMs: request.ttlMs,
    heartbeatAtMs: nowMs,
    // Never earlier than promised: an older answer may already be trusted.
    expiresAtMs: atMost(
      grant.last.untilMs,
      Math.max(grant.last.expiresAtMs, nowMs + request.ttlMs),
    ),
    progress: request.progress === undefined ? grant.last.progress : encodeJson(request.progress),
  };
  const { checkpoint = null } = request;
  const news = request.checkpoint === undefined ? {} : { checkpoint: encodeJson(checkpoint) };
  return {
    record: { ...grant.record, ...news, last },
    outcome: { status: "renewed", ttlMs: last.ttlMs, remainingMs: last.expiresAtMs - nowMs },
  };
}

export function complete(
  record: TaskRecord | null,
  request: CompleteRequest,
  nowMs: number,
): Decision<CompleteOutcome> {
  if (record?.state === "done" && isOwn(record, request)) {
    const output = JSON.parse(record.output) as Json;
    return { record, outcome: { status: "completed", repeated: true, output } };
  }
  const grant = liveGrant(record, request, nowMs);
  if ("reason" in grant) return { record, outcome: grant };
  const output = encodeJson(request.output);
  return {
    record: {
      ...ended(grant, "done", nowMs),
      state: "done",
      output,
      ...finished(grant.record, "doneMs", nowMs),
    },
    outcome: { status: "completed", repeated: false, output: JSON.parse(output) as Json },
  };
}

/**
 * A repeated fail of the grant that recorded one answers what became of it, as long as the task is
 * where the failure left it: waiting for its next attempt, or dead.
 * @param random uniform in [0, 1)
 */
export function fail(
  record: TaskRecord | null,
  request: FailRequest,
  nowMs: number,
  random: number,
): Decision<FailOutcome> {
  if (record && isOwn(record, request) && record.last?.result === "failed") {
    const again = { status: "recorded", repeated: true } as const;
    if (record.state === "pending") {
      const retryInMs = Math.max(0, record.scheduledAtMs - nowMs);
      return { record, outcome: { ...again, state: "pending", retryInMs } };
    }
    if (record.state === "dead") {
      return { record, outcome: { ...again, state: "dead", retryInMs: null } };
    }
  }
  const grant = liveGrant(record, request, nowMs);
  if ("reason" in grant) return { record, outcome: grant };
  const error = storedError(request.error);
  const failures = grant.record.failures + 1;
  const failed = { ...ended(grant, "failed", nowMs, error), error, failures };
  if (request.final || failures >= grant.record.maxAttempts) {
    return {
      record: { ...failed, state: "dead", ...finished(grant.record, "deadMs", nowMs) },
      outcome: { status: "recorded", repeated: false, state: "dead", retryInMs: null },
    };
  }
  const retryInMs = request.retryInMs ?? backoffMs(grant.record.backoff, failures, random);
  return {
    record: { ...failed, state: "pending", scheduledAtMs: nowMs + retryInMs },
    outcome: { status: "recorded", repeated: false, state: "pending", retryInMs },
  };
}

/**
 * The task keeps its place in the queue, or is put off: it is due again after `retryInMs`. A repeated requeue is answered
 * like the first.
 */
export function requeue(
  record: TaskRecord | null,
  request: RequeueRequest,
  nowMs: number,
): Decision<RequeueOutcome> {
  if (record && isOwn(record, request)) {
    const { state, last } = record;
    if (state === "pending" && last?.result === "returned") {
      return { record, outcome: { status: "returned", repeated: true } };
    }
  }
  const grant = liveGrant(record, request, nowMs);
  if ("reason" in grant) return { record, outcome: grant };
  const { retryInMs = null, reason = null } = request;
  const returned = ended(grant, "returned", nowMs, reason && storedError(reason));
  const putOff =
    retryInMs === null
      ? {}
      : { scheduledAtMs: nowMs + retryInMs, postponed: grant.record.postponed + 1 };
  return {
    record: { ...returned, ...putOff, state: "pending" },
    outcome: { status: "returned", repeated: false },
  };
}

/** A record that is known to have been granted. */
export interface Granted {
  readonly record: TaskRecord;
  readonly last: AttemptRecord;
}

function liveGrant(
  record: TaskRecord | null,
  request: TaskGrant,
  nowMs: number,
): Granted | Refused {
  const live = record?.last ? nowMs < record.last.expiresAtMs : false;
  const reason = refusal(record && { state: record.state, own: isOwn(record, request), live });
  if (reason) return { status: "refused", reason };
  invariant(record, "what is not refused exists");
  return runningGrant(record);
}

export function runningGrant(record: TaskRecord): Granted {
  const { last } = record;
  invariant(last && last.result === null, "a running task has a grant that has not ended");
  return { record, last };
}

function isOwn({ last }: TaskRecord, { leaseId, token }: TaskGrant): boolean {
  return last?.leaseId === leaseId && last.token === token;
}

export function ended(
  { record, last }: Granted,
  result: Result,
  nowMs: number,
  error: string | null = null,
): TaskRecord {
  return { ...record, last: { ...last, endedAtMs: nowMs, result, error } };
}

function claimedTask(record: TaskRecord, last: AttemptRecord, nowMs: number): Decided<ClaimedTask> {
  return {
    id: record.id,
    kind: record.kind,
    queue: record.queue,
    priority: record.priority,
    data: JSON.parse(record.data) as Json,
    leaseId: last.leaseId,
    token: last.token,
    attempt: last.attempt,
    failures: record.failures,
    crashes: record.crashes,
    maxAttempts: record.maxAttempts,
    dedupeKey: record.dedupeKey,
    scheduledAt: new Date(record.scheduledAtMs).toISOString(),
    version: record.version,
    maxRunMs: record.maxRunMs ?? null,
    postponed: record.postponed,
    previousHolder: record.earlier.at(-1)?.holder ?? null,
    checkpoint: JSON.parse(record.checkpoint) as Json,
    ttlMs: last.ttlMs,
    remainingMs: last.expiresAtMs - nowMs,
  };
}
