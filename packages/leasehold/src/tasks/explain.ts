/**
 * Why a task is not running, or that it is: for people. It decides nothing; a store's claim does.
 *
 *   running, done, dead, cancelled ─▶ that alone
 *   pending: due later (scheduled, or after a failure) · its queue is paused · no worker claims its kind
 *            · tasks of its concurrency key run, or come before it · as many of its kind or queue run as may
 *            · a rate of its key, kind or queue is used up
 *            · other tasks come before it · none of these: the next claim gets it
 */
import { formatDuration } from "../env/index.js";
import type {
  Attempt,
  BlockedKey,
  BlockingTask,
  ClaimRequest,
  LimitView,
  Rate,
  TaskView,
} from "./port.js";
import { versionTaken } from "./values.js";

export type WhyCode =
  | ("running" | "done" | "dead" | "cancelled" | "expired")
  | (
      | "scheduled"
      | "retrying"
      | "paused"
      | "noWorker"
      | "key"
      | "limit"
      | "rate"
      | "behind"
      | "due"
    );

export interface Reason {
  readonly code: WhyCode;
  /** A sentence for people. */
  readonly text: string;
  /** Until it is due, or until a rate lets the next tasks start; null where that is not why. */
  readonly inMs: number | null;
  /** Tasks before it; null if that is not the reason, or is unknown. */
  readonly ahead: number | null;
}

/** What is known about the surroundings of a pending task. */
export interface Surroundings {
  /** Of the same clock as the task's times, as near as one has it. */
  readonly nowMs: number;
  /** Why its queue is paused, and by whom; null: it is not. */
  readonly pause: { readonly actor: string; readonly reason: string } | null;
  /** Who asked for tasks of late, as far as it is known. */
  readonly claimers: readonly {
    readonly queues: readonly string[];
    readonly kinds: readonly string[] | null;
    readonly versions?: ClaimRequest["versions"];
  }[];
  /** What keeps back the tasks of its concurrency key; null: nothing does, or it has none. */
  readonly blocked: BlockedKey | null;
  /** The limits of its kind and its queue, if there are any. */
  readonly limits: readonly LimitView[];
  /** Due tasks of its queue that come before it. */
  readonly ahead: number;
  /** Whether there may be more of them among tasks that were not listed. */
  readonly more: boolean;
}

type Explained = Pick<
  TaskView,
  | ("id" | "state" | "kind" | "queue" | "scheduledAt" | "holder" | "token" | "remainingMs")
  | (
      | "failures"
      | "crashes"
      | "maxAttempts"
      | "crashLimit"
      | "error"
      | "priority"
      | "version"
      | "startBy"
    )
>;

/** The most decisive reason first; never none. */
export function explain(
  task: Explained,
  last: Pick<Attempt, "result"> | undefined,
  around: Surroundings,
): Reason[] {
  if (task.state !== "pending") return [ofState(task)];
  const { kind, queue, scheduledAt } = task;
  const reasons: Reason[] = [];
  const inMs = Date.parse(scheduledAt) - around.nowMs;
  if (inMs > 0) {
    const failed = last?.result === "failed";
    const text = failed
      ? `attempt ${task.failures} of ${task.maxAttempts} failed; it is tried again at ${scheduledAt}`
      : `it is scheduled for ${scheduledAt}`;
    reasons.push({ ...because(failed ? "retrying" : "scheduled", text), inMs });
  }
  if (around.pause) {
    const { actor, reason } = around.pause;
    reasons.push(because("paused", `the queue ${queue} is paused by ${actor}: ${reason}`));
  }
  const taking = around.claimers.filter(
    ({ queues, kinds }) => queues.includes(queue) && (kinds === null || kinds.includes(kind)),
  );
  if (taking.length > 0 && taking.every((claimer) => versionTaken(claimer, kind) < task.version)) {
    const text = `it is of version ${task.version} of the kind ${kind}, and every worker that has asked this instance for the kind handles earlier versions only`;
    reasons.push(because("noWorker", text));
  }
  if (taking.length === 0) {
    const text = `no worker has asked this instance for the kind ${kind} of the queue ${queue} of late`;
    reasons.push(because("noWorker", text));
  }
  if (around.blocked) {
    const text = textOfKey(task, around.blocked);
    if (text !== null) reasons.push(because("key", text));
    const { key, rate, usedUpUntil } = around.blocked;
    if (rate && usedUpUntil !== null) {
      reasons.push(usedUp(rate, usedUpUntil, `the concurrency key ${key}`, around.nowMs));
    }
  }
  for (const { scope, name, running, live, by, rate, usedUpUntil } of around.limits) {
    const whose = `the ${scope} ${name}`;
    if (running !== null && live >= running)
      reasons.push(because("limit", full(whose, running, by)));
    if (rate && usedUpUntil !== null) reasons.push(usedUp(rate, usedUpUntil, whose, around.nowMs));
  }
  const { ahead, more } = around;
  if (inMs <= 0 && (ahead > 0 || more)) {
    const many = `${more ? "at least " : ""}${ahead}`;
    const text =
      ahead > 0
        ? `${many} due ${ahead === 1 ? "task comes" : "tasks come"} before it in the queue ${queue}`
        : `more tasks wait in the queue ${queue} than were looked at: some may come before it`;
    reasons.push({ ...because("behind", text), ahead: ahead > 0 ? ahead : null });
  }
  return reasons.length > 0 ? reasons : [ofState(task)];
}

/** Null: the key waits for this task alone. */
function textOfKey({ id }: Explained, { key, perKey, by }: BlockedKey): string | null {
  const [first] = by;
  if (!first || first.id === id) return null;
  if (first.state === "pending") {
    return `the task ${first.id} of the concurrency key ${key} comes before it, and is tried again at ${first.until}`;
  }
  return full(`the concurrency key ${key}`, perKey, by);
}

function full(whose: string, most: number, by: readonly BlockingTask[]): string {
  const running = by.map((task) => `${task.id} (${task.holder})`).join(", ");
  return `of ${whose}, ${most} ${most === 1 ? "task runs" : "tasks run"} at a time: ${running}`;
}

function usedUp({ limit, perMs }: Rate, until: string, whose: string, nowMs: number): Reason {
  const tasks = limit === 1 ? "task starts" : "tasks start";
  const text = `of ${whose}, ${limit} ${tasks} within ${formatDuration(perMs)}: the next may start at ${until}`;
  return { ...because("rate", text), inMs: Math.max(0, Date.parse(until) - nowMs) };
}

/** Of a pending task: when nothing is in its way. */
function ofState(task: Explained): Reason {
  const { state, holder, token, failures, maxAttempts, crashes, crashLimit, error } = task;
  switch (state) {
    case "running":
      return (task.remainingMs ?? 0) > 0
        ? because("running", `${holder} works on it with token ${token}`)
        : because("running", `the lease of ${holder} has expired: it is requeued at once`);
    case "dead": {
      const cause =
        crashes >= crashLimit
          ? `its lease expired ${crashes} times, of ${crashLimit} that are allowed`
          : failures >= maxAttempts
            ? `it failed ${failures} times, of ${maxAttempts} that are allowed`
            : "its last error was final";
      return because("dead", error === null ? cause : `${cause}: ${error}`);
    }
    case "done":
      return because("done", "it is done");
    case "cancelled":
      return because("cancelled", "it was cancelled");
    case "expired":
      return because("expired", `it had not begun by ${task.startBy}`);
    case "pending":
      return because("due", "it is due: the next worker that asks gets it");
  }
}

function because(code: WhyCode, text: string): Reason {
  return { code, text, inMs: null, ahead: null };
}

/**
 * Whether a pending task is claimed before another one of its queue.
 * @param isOlder it was enqueued before the other one
 */
export function comesBefore(
  a: Pick<TaskView, "priority" | "scheduledAt">,
  b: Pick<TaskView, "priority" | "scheduledAt">,
  isOlder: boolean,
): boolean {
  if (a.priority !== b.priority) return a.priority < b.priority;
  const byTime = Date.parse(a.scheduledAt) - Date.parse(b.scheduledAt);
  return byTime !== 0 ? byTime < 0 : isOlder;
}
