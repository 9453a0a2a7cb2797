/** The values that each task operation sends, and the meaning of the returned rows. */
import type { Random } from "../../env/index.js";
import { byteLength, RepeatedOutputs, tooMuchOutput } from "../../tasks/payloads.js";
import type {
  AdminOutcome,
  ClaimedTask,
  CompleteOutcome,
  CompleteRequest,
  FailOutcome,
  FailRequest,
  HeartbeatOutcome,
  HeartbeatRequest,
  Json,
  Refused,
  RequeueOutcome,
  RequeueRequest,
  TaskGrant,
  TaskKey,
} from "../../tasks/port.js";
import { encodeJson, isUnfinished, storedError } from "../../tasks/record.js";
import { refusal } from "../../tasks/rules.js";
import type { Sql } from "./connection.js";
import { grantColumns, keyColumns, type TaskStatement } from "./task-calls.js";
import type { ClaimedRow } from "./task-claim-statements.js";
import { leanComplete } from "./task-lean-outcomes.js";
import {
  CANCEL,
  type ChangedRow,
  COMPLETE,
  DELETE,
  type DeletedRow,
  FAIL,
  type FailedRow,
  HEARTBEAT,
  REQUEUE,
  RETRY,
  type RenewedRow,
  TASK_STATE_AND_OUTPUT,
  type TaskStateRow,
} from "./task-statements.js";
import { decode, iso } from "./task-views.js";

export function renewing(sql: Sql): TaskStatement<HeartbeatRequest, HeartbeatOutcome, RenewedRow> {
  return {
    sql,
    text: () => HEARTBEAT,
    values: (entries) => [
      ...grantColumns(entries),
      entries.map(({ request }) => request.ttlMs),
      entries.map(({ request }) => encodedOrNull(request.progress)),
      entries.map(({ request }) => encodedOrNull(request.checkpoint)),
    ],
    changed: ({ expiresAt, now }, { ttlMs }) => ({
      status: "renewed",
      ...termOf({ ttlMs, expiresAt, now }),
    }),
    passedOver: refused,
    // The longest of the TTLs, with the last progress and the last checkpoint.
    merging: {
      merge: (earlier, later) => {
        const { ttlMs } = later.ttlMs > earlier.ttlMs ? later : earlier;
        return { ...earlier, ...later, ttlMs };
      },
      share: (outcome, { ttlMs }) =>
        outcome.status === "renewed" ? { ...outcome, ttlMs } : outcome,
    },
  };
}

/** For one batch, because it counts the returned outputs. */
export function completing(sql: Sql): TaskStatement<CompleteRequest, CompleteOutcome, ChangedRow> {
  const repeated = new RepeatedOutputs();
  return {
    sql,
    text: () => COMPLETE,
    state: TASK_STATE_AND_OUTPUT,
    lean: leanComplete,
    values: (entries) => [
      ...grantColumns(entries),
      entries.map(({ request }) => encodeJson(request.output)),
    ],
    changed: (_, { output }) => ({
      status: "completed",
      repeated: false,
      output: decode(encodeJson(output)),
    }),
    passedOver(skipped, { namespace }) {
      if (!skipped?.own || skipped.state !== "done") return refused(skipped);
      const { output = null } = skipped;
      if (output === null || repeated.exceeds(namespace, byteLength(output))) {
        return tooMuchOutput();
      }
      return { status: "completed", repeated: true, output: decode(output) };
    },
    merging: {
      share(outcome, { namespace }, isBehind) {
        if (!isBehind || outcome.status !== "completed") return outcome;
        return repeated.exceeds(namespace, byteLength(encodeJson(outcome.output)))
          ? tooMuchOutput()
          : { ...outcome, repeated: true };
      },
    },
  };
}

export function failing(
  sql: Sql,
  random: Random,
): TaskStatement<FailRequest, FailOutcome, FailedRow> {
  return {
    sql,
    text: () => FAIL,
    values: (entries) => [
      ...grantColumns(entries),
      entries.map(({ request }) => storedError(request.error)),
      entries.map(({ request }) => request.retryInMs),
      entries.map(({ request }) => request.final ?? false),
      entries.map(() => random.float()),
    ],
    changed: (row) => recorded(row, false),
    passedOver: (skipped) =>
      skipped?.own && skipped.result === "failed" && isRecorded(skipped)
        ? recorded(skipped, true)
        : refused(skipped),
    merging: { share: shareRepeated },
  };
}

export function requeueing(sql: Sql): TaskStatement<RequeueRequest, RequeueOutcome, ChangedRow> {
  return {
    sql,
    text: () => REQUEUE,
    values: (entries) => [
      ...grantColumns(entries),
      entries.map(({ request }) => request.retryInMs ?? null),
      entries.map(({ request: { reason = null } }) => reason && storedError(reason)),
    ],
    changed: () => ({ status: "returned", repeated: false }),
    passedOver: (skipped) =>
      skipped?.own && skipped.result === "returned" && skipped.state === "pending"
        ? { status: "returned", repeated: true }
        : refused(skipped),
    merging: { share: shareRepeated },
  };
}

export function cancelling(sql: Sql): TaskStatement<TaskKey, AdminOutcome, ChangedRow> {
  return {
    sql,
    text: () => CANCEL,
    values: keyColumns,
    changed: () => ({ status: "ok", state: "cancelled" }),
    passedOver(skipped) {
      if (!skipped) return { status: "unknown" };
      const { state } = skipped;
      if (state === "cancelled") return { status: "ok", state };
      return isUnfinished(state) ? null : { status: "conflict", state };
    },
  };
}

export function retrying(sql: Sql): TaskStatement<TaskKey, AdminOutcome, ChangedRow> {
  return {
    sql,
    text: () => RETRY,
    values: keyColumns,
    changed: () => ({ status: "ok", state: "pending" }),
    passedOver(skipped) {
      if (!skipped) return { status: "unknown" };
      const { state, rival } = skipped;
      const conflict = state === "running" || state === "done" || (state !== "pending" && rival);
      return conflict ? { status: "conflict", state } : null;
    },
  };
}

export function deleting(sql: Sql): TaskStatement<TaskKey, AdminOutcome, DeletedRow> {
  return {
    sql,
    text: () => DELETE,
    values: keyColumns,
    changed: ({ state }) => ({ status: "ok", state }),
    passedOver(skipped) {
      if (!skipped) return { status: "unknown" };
      const { state } = skipped;
      return state === "running" ? { status: "conflict", state } : null;
    },
    merging: {
      share: (outcome, _, isBehind) =>
        isBehind && outcome.status === "ok" ? { status: "unknown" } : outcome,
    },
  };
}

function encodedOrNull(value: Json | undefined): string | null {
  return value === undefined ? null : encodeJson(value);
}

function refused(skipped: TaskStateRow | null): Refused | null {
  const reason = refusal(skipped);
  return reason && { status: "refused", reason };
}

type Recorded = Pick<FailedRow, "state" | "retryInMs">;

function isRecorded(skipped: Pick<TaskStateRow, "state" | "retryInMs">): skipped is Recorded {
  return skipped.state === "pending" || skipped.state === "dead";
}

/** Of several requests of one grant in a batch, all but the first repeat it. */
function shareRepeated<Outcome extends FailOutcome | RequeueOutcome>(
  outcome: Outcome,
  _: TaskGrant,
  isBehind: boolean,
): Outcome {
  return isBehind && "repeated" in outcome ? { ...outcome, repeated: true } : outcome;
}

function recorded({ state, retryInMs }: Recorded, repeated: boolean): FailOutcome {
  const leftMs = state === "dead" ? null : Math.max(0, Math.ceil(retryInMs));
  return { status: "recorded", repeated, state, retryInMs: leftMs };
}

export function claimedTask(row: ClaimedRow & { readonly id: string }): ClaimedTask {
  return {
    id: row.id,
    kind: row.kind,
    queue: row.queue,
    priority: row.priority,
    data: decode(row.data),
    leaseId: row.leaseId,
    token: row.token,
    attempt: row.attempt,
    failures: row.failures,
    crashes: row.crashes,
    maxAttempts: row.maxAttempts,
    dedupeKey: row.dedupeKey,
    scheduledAt: iso(row.scheduledAt),
    version: row.version,
    previousHolder: row.previousHolder,
    checkpoint: decode(row.checkpoint),
    maxRunMs: row.maxRunMs,
    postponed: row.postponed,
    ttlMs: row.ttlMs,
    remainingMs: remainingMs(row),
    expiresAt: iso(row.expiresAt),
  };
}

/** Rounds down to whole milliseconds, so that the holder stops early rather than late. */
function termOf(times: { ttlMs: number; expiresAt: number; now: number }) {
  const { ttlMs, expiresAt } = times;
  return {
    ttlMs,
    remainingMs: remainingMs(times),
    expiresAt: iso(expiresAt),
  };
}

function remainingMs({ expiresAt, now }: { expiresAt: number; now: number }): number {
  return Math.floor((expiresAt - now) / 1_000);
}
