/** What a store keeps of a task, where it keeps it as a value, and what it lets in. */
import { checkTime, InvalidOptionError } from "../lease/index.js";
import type { Attempt, Json, NewTask, Retain, TaskBackoff, TaskState } from "./port.js";

export type Result = NonNullable<Attempt["result"]>;

/** One grant on a task and how it ended. Times in milliseconds of the store's clock. */
export interface AttemptRecord {
  readonly attempt: number;
  readonly holder: string;
  readonly leaseId: string;
  readonly token: number;
  readonly ttlMs: number;
  readonly startedAtMs: number;
  readonly heartbeatAtMs: number | null;
  readonly expiresAtMs: number;
  /** No renewal goes past this; null: there is no limit. */
  readonly untilMs: number | null;
  readonly endedAtMs: number | null;
  /** null while it runs. */
  readonly result: Result | null;
  readonly error: string | null;
  readonly progress: string;
}

/**
 * What a store keeps of a task, for ever. Data, output and progress are JSON as text: they come
 * back as they were, whatever happens to the objects that they were made of.
 */
export interface TaskRecord
  extends Omit<NewTask, "data" | "scheduledAt" | "startByMs" | "version"> {
  readonly version: number;
  /** The number that the store gave the task: larger than those of earlier tasks. */
  readonly seq: number;
  readonly data: string;
  readonly state: TaskState;
  readonly output: string;
  readonly checkpoint: string;
  /** Of the last attempt that failed. */
  readonly error: string | null;
  readonly failures: number;
  readonly crashes: number;
  readonly postponed: number;
  /** When its first attempt must have begun; null: at any time. */
  readonly startByAtMs: number | null;
  readonly createdAtMs: number;
  readonly scheduledAtMs: number;
  readonly finishedAtMs: number | null;
  /** When it is collected; null: unless it has ended, and if it is kept for ever. */
  readonly deleteAtMs: number | null;
  /** The last grant: running, or how it ended. */
  readonly last: AttemptRecord | null;
  /** The grants before it, oldest first: at most 99. */
  readonly earlier: readonly AttemptRecord[];
}

/** No output yet, no progress yet. */
export const NOTHING = "null";

/** Anything that JSON cannot say (undefined, a function) becomes null, as within an array. */
export function encodeJson(value: Json): string {
  return JSON.stringify(value) ?? NOTHING;
}

/** The content of a task, which distinguishes a repeated request from another one with the same id. */
export interface TaskContent {
  readonly kind: string;
  readonly queue: string;
  /** JSON as text. */
  readonly data: string;
}

export function isSameContent(a: TaskContent, b: TaskContent): boolean {
  return a.kind === b.kind && a.queue === b.queue && isSameJson(a.data, b.data);
}

/** The names of an object have no order. Equal values have texts of equal length, so a large text is rarely parsed. */
function isSameJson(a: string, b: string): boolean {
  if (a === b || a.length !== b.length) return a === b;
  return JSON.stringify(JSON.parse(a, sorted)) === JSON.stringify(JSON.parse(b, sorted));
}

function sorted(_name: string, value: unknown): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Whether a task counts for its dedupeKey. */
export function isUnfinished(state: TaskState): boolean {
  return state === "pending" || state === "running";
}

export function isClaimable(record: TaskRecord, nowMs: number): boolean {
  return record.state === "pending" && record.scheduledAtMs <= nowMs && !isLate(record, nowMs);
}

/** Whether it has not begun in time. What has begun may be tried again at any time. */
export function isLate({ state, last, startByAtMs }: TaskRecord, nowMs: number): boolean {
  return state === "pending" && last === null && startByAtMs !== null && startByAtMs <= nowMs;
}

const LONGEST_ID = 200;
const CONTROL = /\p{Cc}/u;
/** Paths of URLs lose them, however they are written. */
const DOTS = /^\.{1,2}$/;

/** @throws InvalidOptionError naming `path` */
export function checkTaskId(id: unknown, path = "id"): asserts id is string {
  const problem = typeof id === "string" ? problemOfId(id) : "must be a string";
  if (problem !== null) throw new InvalidOptionError(path, problem);
}

/** False for a text that no task can have as its id. */
export function isTaskId(id: string): boolean {
  return problemOfId(id) === null;
}

function problemOfId(id: string): string | null {
  // A character has at most two code units.
  if (
    id === "" ||
    id.length > LONGEST_ID * 2 ||
    (id.length > LONGEST_ID && Array.from(id).length > LONGEST_ID)
  ) {
    return `must have 1 to ${LONGEST_ID} characters`;
  }
  if (CONTROL.test(id)) return "must not contain control characters";
  if (!id.isWellFormed()) return "must not contain a lone surrogate (half a character)";
  return DOTS.test(id) ? `must not be "${id}"` : null;
}

/** From which task on the next page of a list goes. */
export function taskCursor({ seq }: Pick<TaskRecord, "seq">): string {
  return String(seq);
}

/** @throws InvalidOptionError for a cursor that no page has given */
export function taskPosition(cursor: string): number {
  return cursorNumbers(cursor, /^(\d{1,15})$/, "tasks")[0] as number;
}

/** @throws InvalidOptionError for a cursor that no page of `what` has given */
export function cursorNumbers(cursor: string, pattern: RegExp, what: string): number[] {
  const found = pattern.exec(cursor);
  if (!found) throw new InvalidOptionError("cursor", `must come from a page of ${what}`);
  return found.slice(1).map(Number);
}

/**
 * The task as stores take it. The caller has checked ranges and names.
 * @throws InvalidOptionError for an id that no task can have or a scheduledAt that no store can keep
 */
export function storedTask(task: NewTask): NewTask {
  checkTaskId(task.id);
  if (task.scheduledAt !== null) checkTime("scheduledAt", Date.parse(task.scheduledAt));
  return task;
}

/** An error's text comes from anywhere; what no database can keep is replaced, not refused. */
export function storedError(error: string): string {
  return error.toWellFormed().replaceAll("\0", "\ufffd");
}

/** The wait before a retry: it grows with the failures, and is random in part, so that tasks which failed together do not come back together. */
export function backoffMs(
  { firstMs, longestMs, factor, jitter }: TaskBackoff,
  failures: number,
  random: number,
): number {
  // 100^60 times anything but 0 is beyond any limit; what overflows would be Infinity, and 0 times that NaN.
  const wholeMs = Math.min(firstMs * factor ** Math.min(failures - 1, 60), longestMs);
  return Math.round(wholeMs * (1 - jitter * (1 - random)));
}

/** When it ended, and until when it is kept. */
export function finished({ retain }: TaskRecord, kept: keyof Retain, nowMs: number) {
  const keepMs = retain?.[kept] ?? null;
  return { finishedAtMs: nowMs, deleteAtMs: keepMs === null ? null : nowMs + keepMs };
}
