/** What must hold at any time while a program of tasks runs, and what its run knows. */
import type { HandlerContext, Worker } from "leasehold";
import { type Client, type Site, SLICE_MS } from "./site.js";
import type { Task, TaskBook, TaskGranted } from "./task-book.js";
import type { TaskStep } from "./task-step.js";

export const GRACE_MS = 300;
/** Of a worker whose handlers ignore their signals. */
export const AFTER_GRACE_MS = 500;
export const PROMPT_MS = 8;
const NOTICED_MS = PROMPT_MS + 2 * SLICE_MS;
/** About twice a second, with a jitter. */
const REAPED_MS = 650;
/** A handler that heeds its signal stops after this time. */
export const STOPPING_MS = 5;

/** What a handler does with its task; `stop`: it heeds its signal. */
export type End = Extract<TaskStep, { do: "end" }>["how"] | "stop";

/** A handler that runs. */
export interface Job {
  readonly client: Client;
  readonly worker: Working;
  readonly task: Task;
  readonly grant: TaskGranted;
  readonly context: HandlerContext;
  readonly reasons: string[];
  readonly end: (how: End) => void;
  /** When its signal has aborted. */
  abortedAtMs: number;
}

/** Its slot is not its own any more. */
export function isAbandoned({ abortedAtMs }: Job, nowMs: number): boolean {
  return nowMs >= abortedAtMs + GRACE_MS;
}

/** A worker of a client. */
export interface Working {
  readonly client: Client;
  readonly worker: Worker;
  readonly concurrency: number;
  readonly ttlMs: number;
  readonly kinds: readonly string[];
  readonly sinceMs: number;
  /** Since when it has had a free slot, as seen after each slice. */
  idleSinceMs: number;
  closing: Promise<void> | undefined;
  closedAtMs: number;
}

/** What the run of a program of tasks knows. */
export interface TaskState {
  readonly site: Site;
  readonly book: TaskBook;
  readonly jobs: Set<Job>;
  readonly workers: Set<Working>;
}

export function lookAtTasks(state: TaskState): void {
  const { site, book } = state;
  const alive = new Set<Task>();
  for (const job of state.jobs) if (job.client.isRunning) lookAt(state, job, alive);
  for (const worker of state.workers) {
    const own = [...state.jobs].filter((job) => job.worker === worker).length;
    const isIdle = own < worker.concurrency && worker.client.isRunning && !worker.closing;
    if (!isIdle || worker.client.isFaulty) worker.idleSinceMs = Infinity;
    else if (worker.idleSinceMs === Infinity) worker.idleSinceMs = site.nowMs;
  }
  for (const task of book.tasks.values()) lookAtTask(state, task);
}

function lookAt(state: TaskState, job: Job, alive: Set<Task>): void {
  const { site, book } = state;
  const { client, task, grant, context, reasons, worker } = job;
  const { nowMs } = book;
  const named = `the lease of ${client.name} on ${task.id}`;
  const isAlive = context.lease.checkAlive();
  // A worker that closes requeues the tasks of handlers that do not stop.
  const isGivenUp = !isAlive && worker.closing !== undefined;
  const isRight = reasons.length === (isAlive ? 0 : 1) || (isGivenUp && reasons.length === 0);
  site.expect(isRight, `${named} is alive, or lost once`);
  const isOverdue = !client.isFaulty && site.nowMs > worker.closedAtMs + GRACE_MS + NOTICED_MS;
  site.expect(!isOverdue || context.signal.aborted, `${named} goes on after close()`);
  if (isAlive) {
    // A handler whose task is cancelled learns of it at its next heartbeat; the task may be retried before that.
    const isOverruled = grant.result === "cancelled";
    site.expect(isOverruled || !alive.has(task), `${named} is held beside another one`);
    if (!isOverruled) alive.add(task);
    site.expect(nowMs < grant.trustedUntilMs, `${named} is trusted for too long`);
    const isLate = nowMs > grant.endedAtMs + (worker.ttlMs / 3) * 1.1 + NOTICED_MS;
    site.expect(!isLate || client.isFaulty, `${named} has ended, and its holder does not know`);
    return;
  }
  site.expect(context.signal.aborted, `${named} is lost, and its signal has not aborted`);
  const isKnown = reasons[0] !== "gone" || grant.result === "done" || grant.result === "failed";
  site.expect(isKnown, `${named} is gone, and was ${grant.result}`);
  if (reasons[0] === "revoked") {
    site.expect(grant.result === "cancelled", `${named} was not cancelled`);
  } else if (!client.isFaultySince(site.nowMs - nowMs + grant.confirmedAtMs)) {
    // The worker takes it from a handler that does not end, and then reports it.
    const isOutOfTime = task.maxRunMs !== null && isAbandoned(job, site.nowMs);
    site.expect(
      isGivenUp || isOutOfTime || grant.result !== null,
      `${named} is lost: ${reasons[0]}`,
    );
  }
}

/** A task that is due goes to an idle worker, and one whose worker is gone returns. */
function lookAtTask(state: TaskState, task: Task): void {
  const { site, book } = state;
  const { nowMs } = book;
  const workers = [...state.workers].filter(({ client }) => client.isRunning && !client.isFaulty);
  if (task.state === "pending" && !book.isLate(task)) {
    const sinceMs = Math.max(task.dueMs, task.pendingSinceMs);
    // No store notifies of a task that becomes due by time.
    const isNotified = task.dueMs <= task.pendingSinceMs;
    for (const { kinds, idleSinceMs, ttlMs, client } of workers) {
      if (!kinds.includes(task.kind)) continue;
      const pollMs = isNotified ? 0 : Math.min(2_000, ttlMs / 4);
      const idleMs = site.nowMs - idleSinceMs;
      const isLate = Math.min(nowMs - sinceMs, idleMs) > NOTICED_MS + pollMs;
      site.expect(!isLate, `${task.id} is due, and ${client.name} is idle`);
    }
  }
  const grant = task.grants.at(-1);
  if (task.state === "running" && grant) {
    const isLate = nowMs > grant.untilMs + REAPED_MS + NOTICED_MS;
    const hasReaper = workers.some(({ sinceMs }) => site.nowMs > sinceMs + REAPED_MS + NOTICED_MS);
    site.expect(!isLate || !hasReaper, `${task.id} has expired, and is not pending again`);
  }
}
