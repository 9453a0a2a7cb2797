/**
 * The logger of a client that was given none: warnings and errors become warnings of the process, each
 * once, so that a first failure is seen and a repeated one floods nothing. Node prints them to stderr;
 * `process.on("warning", ...)` receives them, and `node --disable-warning=CODE` silences one.
 */
import { classOf, describe, entriesOf, isError, propertyOf, reasonOf, shown } from "./describe.js";
import { guarded } from "./guarded.js";
import { escapeHidden } from "./hidden.js";
import type { Logger } from "./logger.js";

/** The code of each message that the library logs as a warning or an error. docs/warnings.md explains them. @internal */
export const WARNING_CODES = {
  "a fenced request failed": "LEASEHOLD_W_REQUEST_FAILED",
  "a guard got the token of a task for another resource": "LEASEHOLD_W_TASK_TOKEN",
  "a handler has run for an hour: if it hangs, cancel its task, and give its kind a maxRunMs":
    "LEASEHOLD_W_HANDLER_RUNS_LONG",
  "a handler runs too long": "LEASEHOLD_W_TASK_TIMEOUT",
  "a handler still runs after its grace: its slot is used for other tasks":
    "LEASEHOLD_W_HANDLER_ABANDONED",
  "a lease is still held, and nothing else keeps this process alive": "LEASEHOLD_W_FORGOTTEN_LEASE",
  "a listener threw": "LEASEHOLD_W_LISTENER_THREW",
  "a proxy is named, but not used: npm install undici": "LEASEHOLD_W_PROXY_UNUSED",
  "a report is not acknowledged yet": "LEASEHOLD_W_REPORT_UNCONFIRMED",
  "a schedule cannot be read here": "LEASEHOLD_W_SCHEDULE_UNREADABLE",
  "an onLost handler threw": "LEASEHOLD_W_LISTENER_THREW",
  "another client has the name of this member: it gets no shards": "LEASEHOLD_W_MEMBER_TWICE",
  "background work failed": "LEASEHOLD_W_BACKGROUND_FAILED",
  "could not claim tasks": "LEASEHOLD_W_CLAIM_FAILED",
  "could not close before the process ends": "LEASEHOLD_W_CLOSE_FAILED",
  "could not declare the limit of tasks; trying again": "LEASEHOLD_W_LIMIT_UNDECLARED",
  "could not plan the shards": "LEASEHOLD_W_SHARDS_FAILED",
  "could not read the plan of the shards": "LEASEHOLD_W_SHARDS_FAILED",
  "could not requeue a task whose claimer has gone": "LEASEHOLD_W_REQUEUE_FAILED",
  "could not write ended grants to the history": "LEASEHOLD_W_HISTORY_FAILED",
  "due tasks are of a later version: this worker leaves them to others":
    "LEASEHOLD_W_LATER_VERSION",
  "ended grants are missing in the history": "LEASEHOLD_W_HISTORY_INCOMPLETE",
  "ended grants may be missing in the history": "LEASEHOLD_W_HISTORY_INCOMPLETE",
  "failure not recorded": "LEASEHOLD_W_FAILURE_UNRECORDED",
  "gave up; not confirmed": "LEASEHOLD_W_RELEASE_UNCONFIRMED",
  "lease lost": "LEASEHOLD_W_LEASE_LOST",
  "lease not released": "LEASEHOLD_W_RELEASE_UNCONFIRMED",
  "no new token for the server": "LEASEHOLD_W_TOKEN_FAILED",
  "observing a store that does not answer": "LEASEHOLD_W_STORE_UNAVAILABLE",
  "other members have another count: some shards are worked on by no member":
    "LEASEHOLD_W_SHARD_COUNTS",
  "renewal failed": "LEASEHOLD_W_RENEWAL_FAILED",
  "restart this process: too many abandoned handlers still run, so the worker claims no more tasks":
    "LEASEHOLD_W_WORKER_STUCK",
  "task failed": "LEASEHOLD_W_TASK_FAILED",
  "the connection was lost; reconnecting": "LEASEHOLD_W_CONNECTION_LOST",
  "the event loop is blocked: its leases are no longer renewed": "LEASEHOLD_W_EVENT_LOOP_BLOCKED",
  "the notification connection was lost": "LEASEHOLD_W_CONNECTION_LOST",
  "the logger threw": "LEASEHOLD_W_LOGGER_THREW",
  "the named successor did not take over": "LEASEHOLD_W_NO_SUCCESSOR",
  "the renewal thread could not close its store": "LEASEHOLD_W_CLOSE_FAILED",
  "the renewal thread has ended: the event loop renews alone": "LEASEHOLD_W_RENEWAL_THREAD_ENDED",
  "the schedules could not be read or moved on": "LEASEHOLD_W_SCHEDULES_FAILED",
  "the session has ended, with all its leases": "LEASEHOLD_W_SESSION_ENDED",
  "the store is unavailable: the work runs unfenced": "LEASEHOLD_W_UNFENCED",
  "the store refused a late report": "LEASEHOLD_W_REPORT_REFUSED",
  "the store refuses the task of a schedule": "LEASEHOLD_W_SCHEDULE_REFUSED",
  "the store refuses what a handler reports": "LEASEHOLD_W_NEWS_REFUSED",
  "the telemetry threw": "LEASEHOLD_W_TELEMETRY_THREW",
  "the work does not stop": "LEASEHOLD_W_WORK_DOES_NOT_STOP",
  "the work ended by itself": "LEASEHOLD_W_WORK_ENDED",
  "the work failed": "LEASEHOLD_W_WORK_FAILED",
  "the work threw after it was asked to stop": "LEASEHOLD_W_WORK_THREW_LATE",
  "this member no longer coordinates": "LEASEHOLD_W_SHARDS_FAILED",
  "waiting for a lease of this very client: a run within a run waits for ever":
    "LEASEHOLD_W_NESTED_RUN",
  "waiting for a lease": "LEASEHOLD_W_LONG_WAIT",
  "waiting for a server that refuses by a limit": "LEASEHOLD_W_REFUSED_BY_LIMIT",
  "waiting for a store that does not answer": "LEASEHOLD_W_STORE_UNAVAILABLE",
  "watch broke; subscribing again": "LEASEHOLD_W_CONNECTION_LOST",
  "watch of results broke; subscribing again": "LEASEHOLD_W_CONNECTION_LOST",
  "watch of tasks broke; subscribing again": "LEASEHOLD_W_CONNECTION_LOST",
} as const;

/** What a program logs itself by `context.log` of a handler. */
const OTHER = "LEASEHOLD_W_LOGGED";
/** Different warnings that a process emits at most. */
const MAX_EMITTED = 100;

interface Emitted {
  readonly type: string;
  readonly code: string;
  readonly detail: string;
}
type Emit = (message: string, options: Emitted) => void;

/** @param emit default: `process.emitWarning`, or the console where there is no process */
export function warningLogger(emit: Emit = emitWarning): Logger {
  const emitted = new Set<string>();
  // A program logs anything, and may leave out the fields, as loggers allow.
  const warn = (fields: unknown, given?: unknown) => {
    const message = reasonOf(given === undefined ? fields : given);
    const code = (WARNING_CODES as Record<string, string>)[message] ?? OTHER;
    const [kind, err] = [propertyOf(fields, "kind"), propertyOf(fields, "err")];
    // One handler's failure must not hide another's.
    const key = `${code === OTHER ? message : code} ${typeof kind === "string" ? kind : ""}`;
    if (emitted.has(key) || emitted.size >= MAX_EMITTED) return;
    emitted.add(key);
    const name = isError(err) ? `${classOf(err)}: ` : "";
    const cause = err === undefined ? "" : `: ${name}${reasonOf(err)}`;
    const stack = isError(err) ? describe(err) : "";
    const detail = [listed(fields), stack, REMEDY].filter(Boolean).join("\n");
    const options = { type: "LeaseholdWarning", code, detail: visible(detail) };
    guarded(
      () => emit(visible(`${message}${cause}`), options),
      () => {},
    );
  };
  return { debug() {}, info() {}, warn, error: warn };
}

/** Node prints warnings as they are. */
function visible(text: string): string {
  return escapeHidden(text, "\n\t");
}

const REMEDY =
  "Reported once. Pass a logger to connect() to see all: connect(url, { logger: console })";

/** The fields as `name: value`, without the error, which has lines of its own. */
function listed(fields: unknown): string {
  return entriesOf(fields)
    .filter(([name, value]) => name !== "err" && value !== undefined)
    .map(([name, value]) => `${name}: ${typeof value === "string" ? value : shown(value)}`)
    .join(", ");
}

function emitWarning(message: string, options: Emitted): void {
  const { process } = globalThis as {
    process?: { emitWarning?: (message: string, options: Emitted) => void };
  };
  if (process?.emitWarning) process.emitWarning(message, options);
  else console.warn(`[${options.code}] ${message}\n${options.detail}`);
}
