/** What a task is given beside its data, by its kind or for itself: its queue, its tries, its limits of time. */
import {
  checkInteger,
  checkKnown,
  checkName,
  checkNumber,
  InvalidOptionError,
  withoutUndefined,
} from "../lease/index.js";
import type { Retain, TaskBackoff } from "./port.js";

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
  /**
   * How long a failed task waits before it is tried again. `firstMs`: before the first retry, default 1,000 ms; `factor`: by
   * how much each wait is longer than the one before, 1 to 100, default 2; `longestMs`: the longest wait, default 3,600,000
   * (an hour), at most thirty days. `jitter`: the share of each wait that is random, 0 to 1, default 0.5, so that tasks that
   * failed together do not come back together: the first wait takes between half a second and a second. With 0 each wait is
   * as long as it says.
   */
  backoff?: Partial<TaskBackoff>;
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
  backoff: true,
  retain: true,
  maxRunMs: true,
  startByMs: true,
};

/** @throws InvalidOptionError */
export function checkDefaults(defaults: TaskDefaults): void {
  const { queue, priority, maxAttempts, crashLimit, backoff, retain } = defaults;
  const { maxRunMs, startByMs } = defaults;
  if (queue !== undefined) checkName("queue", queue);
  checkOptional("priority", priority, -32_768, 32_767);
  checkOptional("maxAttempts", maxAttempts, 1, 32_767);
  checkOptional("crashLimit", crashLimit, 1, 32_767);
  if (backoff !== undefined) checkBackoff(backoff);
  if (maxRunMs !== null) checkOptional("maxRunMs", maxRunMs, 1, LONGEST_RUN_MS);
  if (startByMs !== null) checkOptional("startByMs", startByMs, 1, LONGEST_KEPT_MS);
  if (retain !== undefined) checkRetain(retain);
}

/** Used where neither the definition nor the options of a task set a value. */
export const DEFAULTS = {
  queue: "default",
  priority: 0,
  maxAttempts: 10,
  crashLimit: 10,
  backoff: { firstMs: 1_000, longestMs: 3_600_000, factor: 2, jitter: 0.5 },
  retain: { doneMs: 7 * 24 * 3_600_000, deadMs: 30 * 24 * 3_600_000 },
  maxRunMs: null,
  startByMs: null,
} as const satisfies Required<TaskDefaults>;

/**
 * The settings of one task: its own, then those of its kind, then {@link DEFAULTS}.
 * @throws InvalidOptionError
 */
export function settingsOf(ofKind: TaskDefaults, own: TaskDefaults) {
  const given = { ...withoutUndefined(ofKind), ...withoutUndefined(own) };
  checkDefaults(given);
  const retain: Retain = merged(DEFAULTS.retain, ofKind.retain, own.retain);
  const backoff: TaskBackoff = merged(DEFAULTS.backoff, ofKind.backoff, own.backoff);
  checkOrder(backoff);
  return { ...DEFAULTS, ...given, backoff, retain };
}

/** Thousands of tasks a second mostly have the defaults. */
function merged<T extends object>(defaults: T, ofKind?: Partial<T>, own?: Partial<T>): T {
  if (!ofKind && !own) return defaults;
  return { ...defaults, ...withoutUndefined(ofKind ?? {}), ...withoutUndefined(own ?? {}) };
}

/** Thirty days: a task that waits longer than that wants a schedule. */
export const LONGEST_BACKOFF_MS = 30 * 24 * 3_600_000;
/** Thirty days: what runs for longer is no task. */
export const LONGEST_RUN_MS = 30 * 24 * 3_600_000;

/** A hundred years. */
export const LONGEST_KEPT_MS = 36_525 * 24 * 3_600_000;

function checkBackoff(backoff: Partial<TaskBackoff>): void {
  checkKnown(backoff, DEFAULTS.backoff, "backoff");
  const { firstMs, longestMs, factor = 1, jitter = 0 } = backoff;
  checkOptional("backoff.firstMs", firstMs, 0, LONGEST_BACKOFF_MS);
  checkOptional("backoff.longestMs", longestMs, 0, LONGEST_BACKOFF_MS);
  checkNumber("backoff.factor", factor, 1, 100);
  checkNumber("backoff.jitter", jitter, 0, 1);
  checkOrder(backoff);
}

function checkOrder({ firstMs = 0, longestMs = LONGEST_BACKOFF_MS }: Partial<TaskBackoff>): void {
  if (firstMs > longestMs) {
    throw new InvalidOptionError("backoff.firstMs", `must be at most longestMs = ${longestMs}`);
  }
}

function checkRetain(retain: Partial<Retain>): void {
  checkKnown(retain, DEFAULTS.retain, "retain");
  for (const name of ["doneMs", "deadMs"] as const) {
    const keepMs = retain[name];
    if (keepMs !== null) checkOptional(`retain.${name}`, keepMs, 0, LONGEST_KEPT_MS);
  }
}

function checkOptional(path: string, value: number | undefined, min: number, max: number): void {
  if (value !== undefined) checkInteger(path, value, min, max);
}
