/** When schedules fire: pure functions of a schedule as it was read, for every process that ticks. */
import { type CatchUp, type DueSchedule, MOST_WAITING } from "./port.js";

/** The fire times of a schedule, in milliseconds since the Unix epoch. */
export interface FireTimes {
  /** The first one after a time; null: there is none. */
  next(afterMs: number): number | null;
  /** The last one before a time; null: there is none. */
  previous(beforeMs: number): number | null;
}

/** What a tick decides of a schedule. */
export interface Step {
  /** The fire times that make a task, oldest first. */
  readonly fireAtMs: readonly number[];
  readonly lastFireAtMs: number;
  readonly waiting: readonly number[];
  readonly dueAtMs: number;
  readonly skipped: number;
}

/**
 * A tick may be so late without having missed a fire time.
 * @internal
 */
export const LATE_MS = 10_000;
/**
 * How often a tick looks whether a task has ended for which a fire time waits.
 * @internal
 */
export const RECHECK_MS = 200;
/**
 * A schedule without further fire times is due at the last time that a Date can have.
 * @internal
 */
export const NEVER_MS = 8_640_000_000_000_000;
/** A tick counts at most so many fire times that were missed. */
const MOST_MISSED = 1_000;

/**
 * Decides what becomes of the fire times since the last tick.
 * @param nowMs the store's time
 */
export function stepOf(due: DueSchedule, nowMs: number, times: FireTimes): Step {
  const { catchUp, overlap } = due.declaration;
  const passed = passedOf(times, due.lastFireAtMs, nowMs);
  const counted = caughtUp(catchUp, passed, nowMs);
  const all = [...due.waiting, ...counted];
  const { fireAtMs, waiting } = overlapped(overlap, all, due.isRunning);
  // The store's clock may have been put back.
  const nextMs = times.next(Math.max(nowMs, due.lastFireAtMs)) ?? NEVER_MS;
  return {
    fireAtMs,
    waiting,
    lastFireAtMs: passed.at(-1) ?? due.lastFireAtMs,
    dueAtMs: waiting.length > 0 ? Math.min(nextMs, nowMs + RECHECK_MS) : nextMs,
    skipped: due.waiting.length + passed.length - fireAtMs.length - waiting.length,
  };
}

/** The fire times after one time and up to another, oldest first; only the newest if there are very many. */
function passedOf(times: FireTimes, afterMs: number, untilMs: number): number[] {
  const passed: number[] = [];
  let atMs = times.previous(untilMs + 1);
  while (atMs !== null && atMs > afterMs && passed.length < MOST_MISSED) {
    passed.unshift(atMs);
    atMs = times.previous(atMs);
  }
  return passed;
}

/** The largest number of fire times that one tick makes tasks of. */
export function mostOf(catchUp: CatchUp): number {
  if (catchUp === "none") return 0;
  return catchUp === "last" ? 1 : catchUp.most;
}

/** As {@link mostOf} was given it. */
export function catchUpOf(most: number): CatchUp {
  if (most === 0) return "none";
  return most === 1 ? "last" : { most };
}

/** Those of the fire times, oldest first, that are not too late. */
function caughtUp(catchUp: CatchUp, passed: readonly number[], nowMs: number): readonly number[] {
  const most = mostOf(catchUp);
  if (most > 0) return passed.slice(-most);
  return passed.slice(-1).filter((atMs) => atMs > nowMs - LATE_MS);
}

function overlapped(
  overlap: DueSchedule["declaration"]["overlap"],
  all: readonly number[],
  isRunning: boolean,
): Pick<Step, "fireAtMs" | "waiting"> {
  if (overlap === "allow") return { fireAtMs: all, waiting: [] };
  // Several would overlap each other.
  if (overlap === "skip") return { fireAtMs: isRunning ? [] : all.slice(-1), waiting: [] };
  const first = isRunning ? 0 : 1;
  return { fireAtMs: all.slice(0, first), waiting: all.slice(first, first + MOST_WAITING) };
}

/** Fire times at the multiples of an interval since the Unix epoch. */
export function everyTimes(everyMs: number): FireTimes {
  return {
    next: (afterMs) => (Math.floor(afterMs / everyMs) + 1) * everyMs,
    previous: (beforeMs) => (Math.ceil(beforeMs / everyMs) - 1) * everyMs,
  };
}

/** The next fire times after a time. */
export function nextTimes(times: FireTimes, afterMs: number, count: number): number[] {
  const found: number[] = [];
  for (let atMs = times.next(afterMs); atMs !== null && found.length < count; ) {
    found.push(atMs);
    atMs = times.next(atMs);
  }
  return found;
}
