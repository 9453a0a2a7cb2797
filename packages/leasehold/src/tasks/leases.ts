/** Grants on tasks, as leases on resources named `task:ID`. */
import type { LeaseState, LeaseView } from "../lease/index.js";
import type { Attempt, TaskDetails, TaskKey } from "./port.js";
import { cursorNumbers } from "./record.js";

type Result = NonNullable<Attempt["result"]>;

const STATES: Readonly<Record<Result, Exclude<LeaseState, "live">>> = {
  done: "released",
  failed: "released",
  returned: "released",
  expired: "expired",
  cancelled: "revoked",
};

/** How attempts end whose leases are in one of these states. */
export function resultsOf(states: readonly LeaseState[]): Result[] {
  return (Object.keys(STATES) as Result[]).filter((result) => states.includes(STATES[result]));
}

/** @param live its deadline has not passed; of those that have ended it says nothing */
export function taskLeaseState(result: Result | null, live: boolean): LeaseState {
  if (result !== null) return STATES[result];
  return live ? "live" : "expired";
}

/** A grant, and the deadline it has while it runs. */
export interface TaskTerm extends Omit<Attempt, "attempt" | "error" | "progress"> {
  readonly expiresAt: string | null;
  /** Above 0 as long as the lease is live. */
  readonly remainingMs: number;
}

/**
 * One grant on a task as a lease. An expired grant is `expired` even before it is reaped. Its
 * expiry is the deadline while it runs, and the end when it has ended.
 */
export function taskLease({ namespace, id }: TaskKey, term: TaskTerm): LeaseView {
  const { holder, grantId, token, ttlMs, result, endedAt } = term;
  return {
    namespace,
    resource: `task:${id}`,
    holder,
    grantId,
    token,
    state: taskLeaseState(result, term.remainingMs > 0),
    ttlMs,
    remainingMs: result === null ? term.remainingMs : 0,
    grantedAt: term.startedAt,
    renewedAt: term.heartbeatAt,
    expiresAt: result === null ? term.expiresAt : endedAt,
    metadata: null,
  };
}

/** Every grant on a task, as `TaskStore.leases` lists them: the newest first. */
export function leasesOfTask(namespace: string, task: TaskDetails): LeaseView[] {
  const { id, expiresAt, remainingMs } = task;
  return task.attempts
    .map((attempt) =>
      taskLease({ namespace, id }, { ...attempt, expiresAt, remainingMs: remainingMs ?? 0 }),
    )
    .reverse();
}

/** The last grant of a page, from which on the next page goes. */
export interface TaskLeasePosition {
  /** The number of the task. */
  readonly seq: number;
  readonly attempt: number;
}

export function taskLeaseCursor({ seq, attempt }: TaskLeasePosition): string {
  return `${seq}.${attempt}`;
}

/** @throws InvalidOptionError for a cursor that no page has given */
export function taskLeasePosition(cursor: string): TaskLeasePosition {
  const [seq, attempt] = cursorNumbers(cursor, /^(\d{1,15})\.(\d{1,9})$/, "leases on tasks");
  return { seq: seq as number, attempt: attempt as number };
}
