/**
 * What operators and time decide about a task, as pure functions like those of rules.ts: it is cancelled or starts over, its
 * lease has expired, or it has not begun in time.
 */
import type { AdminOutcome, Reaped } from "./port.js";
import { finished, isLate, isUnfinished, type TaskRecord } from "./record.js";
import { type Decision, ended, runningGrant } from "./rules.js";

/** Cancelling a cancelled task again is `ok`. */
export function cancel(record: TaskRecord | null, nowMs: number): Decision<AdminOutcome> {
  if (!record) return { record, outcome: { status: "unknown" } };
  const { state } = record;
  if (state === "cancelled") return { record, outcome: { status: "ok", state } };
  if (!isUnfinished(state)) return { record, outcome: { status: "conflict", state } };
  const stopped = state === "running" ? ended(runningGrant(record), "cancelled", nowMs) : record;
  return {
    record: { ...stopped, state: "cancelled", ...finished(record, "deadMs", nowMs) },
    outcome: { status: "ok", state: "cancelled" },
  };
}

/**
 * Attempts, their numbers and tokens go on; failures, crashes and what was put off start over. A pending task that is
 * due already keeps its place in the queue. One that starts over has no time by which it must begin.
 * @param rival as in {@link enqueue}: while it is unfinished, this one cannot start over
 */
export function retry(
  record: TaskRecord | null,
  rival: TaskRecord | null,
  nowMs: number,
): Decision<AdminOutcome> {
  if (!record) return { record, outcome: { status: "unknown" } };
  const { state } = record;
  const startsOver = state === "dead" || state === "cancelled" || state === "expired";
  if ((!startsOver && state !== "pending") || (startsOver && rival)) {
    return { record, outcome: { status: "conflict", state } };
  }
  return {
    record: {
      ...record,
      state: "pending",
      failures: 0,
      crashes: 0,
      postponed: 0,
      startByAtMs: startsOver ? null : record.startByAtMs,
      scheduledAtMs: startsOver ? nowMs : Math.min(record.scheduledAtMs, nowMs),
      finishedAtMs: null,
      deleteAtMs: null,
    },
    outcome: { status: "ok", state: "pending" },
  };
}

/**
 * Ends an expired lease, after which the task keeps its place in the queue, or a task that has not begun in time; null if
 * there is neither.
 */
export function reap(
  record: TaskRecord,
  nowMs: number,
): { readonly record: TaskRecord; readonly outcome: Reaped } | null {
  if (isLate(record, nowMs)) {
    const { namespace, id } = record;
    return {
      record: { ...record, state: "expired", ...finished(record, "deadMs", nowMs) },
      outcome: { namespace, id, holder: null, token: null, state: "expired" },
    };
  }
  if (record.state !== "running") return null;
  const grant = runningGrant(record);
  if (nowMs < grant.last.expiresAtMs) return null;
  const { namespace, id } = record;
  const { holder, token } = grant.last;
  const crashes = record.crashes + 1;
  const crashed = { ...ended(grant, "expired", nowMs), crashes };
  if (crashes >= record.crashLimit) {
    return {
      record: { ...crashed, state: "dead", ...finished(record, "deadMs", nowMs) },
      outcome: { namespace, id, holder, token, state: "dead" },
    };
  }
  return {
    record: { ...crashed, state: "pending" },
    outcome: { namespace, id, holder, token, state: "pending" },
  };
}
