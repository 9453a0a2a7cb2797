/** What a task is given beside its data: its queue, its tries, its limits of time. Of its kind, or its own. */
import {
  checkInteger,
  checkKnown,
  checkName,
  InvalidOptionError,
  withoutUndefined,
} from "../core/index.js";
import type { Retain } from "./port.js";

/** How tasks of a kind are kept and retried; each can be overridden when one is enqueued. */
export interface TaskDefaults {
  /** Default `default`. A worker claims from the queues in its options. */
  queue?: string;
  /** Smaller runs sooner, -32,768 to 32,767. Default 0. */
  priority?: number;
  /** The task is dead when this many attempts have failed. Default 10. */
  maxAttempts?: number;
  /**
   * How many crashes a task survives: it is dead when this many of its workers have died or gone silent. Default 10: counted
   * apart from failures, because a deployment that kills workers is not the task's fault.
   */
  crashLimit?: number;
  /** Wait before the first retry, in milliseconds; doubled for each further one. Default 1,000. */
  backoffMs?: number;
  /** The longest wait before a retry, also before the first one. Default 3,600,000 (an hour). */
  maxBackoffMs?: number;
  /**
   * How long a task is kept once it has ended, in milliseconds: `doneMs` if it is done, default seven days; `deadMs` if it is
   * dead or cancelled, default thirty days. Null: until it is deleted.
   */
  retain?: Partial<Retain>;
  /**
   * How long one attempt may run, in milliseconds, up to thirty days. Then the signal of its handler aborts with
   * TASK_TIMEOUT, and the attempt fails when the handler ends. One that has not ended after the `graceMs` of its worker
   * loses its slot, and the task is tried again: fence what such a handler may still write to. The store keeps to it too, so
   * a blocked event loop gains no time. Default null: as long as its worker renews the lease.
   */
  maxRunMs?: number | null;
  /**
   * How long after it is due the task may begin, in milliseconds: later it ends as `expired`, and its handler never runs.
   * What has begun may be retried at any time. Default null: at any time.
   */
  startByMs?: number | null;
}

export const TASK_DEFAULTS: Readonly<Record<keyof TaskDefaults, true>> = {
  queue: true,
  priority: true,
  maxAttempts: true,
  crashLimit: true,
  backoffMs: true,
  maxBackoffMs: true,
  retain: true,
  maxRunMs: true,
  startByMs: true,
};

/** @throws InvalidOptionError */
export function checkDefaults(defaults: TaskDefaults): void {
  const { queue, priority, maxAttempts, crashLimit, backoffMs, maxBackoffMs, retain } = defaults;
  const { maxRunMs, startByMs } = defaults;
  if (queue !== undefined) checkName("queue", queue);
  checkOptional("priority", priority, -32_768, 32_767);
  checkOptional("maxAttempts", maxAttempts, 1, 32_767);
  checkOptional("crashLimit", crashLimit, 1, 32_767);
  checkOptional("backoffMs", backoffMs, 0, LONGEST_BACKOFF_MS);
  checkOptional("maxBackoffMs", maxBackoffMs, 0, LONGEST_BACKOFF_MS);
  if (maxRunMs !== null) checkOptional("maxRunMs", maxRunMs, 1, LONGEST_RUN_MS);
  if (startByMs !== null) checkOptional("startByMs", startByMs, 1, LONGEST_KEPT_MS);
  if (retain !== undefined) checkRetain(retain);
  if (backoffMs !== undefined && maxBackoffMs !== undefined && backoffMs > maxBackoffMs) {
    throw new InvalidOptionError("backoffMs", `must be at most maxBackoffMs = ${maxBackoffMs}`);
  }
}

/** Used where neither the definition nor the options of a task set a value. */
export const DEFAULTS = {
  queue: "default",
  priority: 0,
  maxAttempts: 10,
  crashLimit: 10,
  backoffMs: 1_000,
  maxBackoffMs: 3_600_000,
  retain: { doneMs: 7 * 24 * 3_600_000, deadMs: 30 * 24 * 3_600_000 },
  maxRunMs: null,
  startByMs: null,
} as const satisfies Required<TaskDefaults>;

/**
 * The settings of one task: its own, then those of its kind, then {@link DEFAULTS}.
 * @throws InvalidOptionError
 */
export function settingsOf(ofKind: TaskDefaults, own: TaskDefaults) {
  const settings = { ...DEFAULTS, ...withoutUndefined(ofKind), ...withoutUndefined(own) };
  checkDefaults(settings);
  const retain: Retain = {
    ...DEFAULTS.retain,
    ...withoutUndefined(ofKind.retain ?? {}),
    ...withoutUndefined(own.retain ?? {}),
  };
  return { ...settings, retain };
}

/** Thirty days: a task that waits longer than that wants a schedule. */
export const LONGEST_BACKOFF_MS = 30 * 24 * 3_600_000;
/** Thirty days: what runs for longer is no task. */
export const LONGEST_RUN_MS = 30 * 24 * 3_600_000;

/** A hundred years. */
export const LONGEST_KEPT_MS = 36_525 * 24 * 3_600_000;

function checkRetain(retain: Partial<Retain>): void {
  checkKnown(retain, { doneMs: true, deadMs: true }, "retain");
  for (const name of ["doneMs", "deadMs"] as const) {
    const keepMs = retain[name];
    if (keepMs !== null) checkOptional(`retain.${name}`, keepMs, 0, LONGEST_KEPT_MS);
  }
}

function checkOptional(path: string, value: number | undefined, min: number, max: number): void {
  if (value !== undefined) checkInteger(path, value, min, max);
}
