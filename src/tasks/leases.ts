/** Grants on tasks, as leases on resources named `task:ID`. */
import type { LeaseState, LeaseView } from "../lease/index.js";
import type { Attempt, TaskDetails, TaskKey } from "./port.js";

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

/** A grant, and the deadline it has while it runs. */
export interface TaskTerm extends Omit<Attempt, "attempt" | "error" | "progress"> {
  readonly expiresAt: string | null;
  /** Above 0 as long as the lease is live. */
  readonly remainingMs: number;
}

/**
 * One grant on a task as a lease. What ran out and was not reaped yet is `expired` already. Its
 * expiry is the deadline while it runs, and the end when it has ended.
 */
export function taskLease({ namespace, id }: TaskKey, term: TaskTerm): LeaseView {
  const { holder, grantId, token, ttlMs, result, endedAt } = term;
  const running = term.remainingMs > 0 ? "live" : "expired";
  return {
    namespace,
    resource: `task:${id}`,
    holder,
    grantId,
    token,
    state: result === null ? running : STATES[result],
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
