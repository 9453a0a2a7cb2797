/** Schedules in PostgreSQL, beside the tasks that they make. */
import type { Clock } from "../../env/index.js";
import {
  type CallOptions,
  cursorAfter,
  type Page,
  resourceOfCursor,
  StoreUnavailableError,
} from "../../lease/index.js";
import type { Json } from "../../tasks/port.js";
import { encodeJson } from "../../tasks/record.js";
import {
  type DeclareOutcome,
  type DeclareRequest,
  type DueSchedule,
  type DueSchedules,
  type FireOutcome,
  type FireRequest,
  MOST_SCHEDULES,
  type PauseScheduleRequest,
  type RunNowOutcome,
  type RunNowRequest,
  type ScheduleChange,
  type ScheduleDeclaration,
  type ScheduleKey,
  type ScheduleQuery,
  type ScheduleStore,
  type ScheduleView,
  type Ticking,
} from "../../tasks/schedules/port.js";
import { catchUpOf, mostOf } from "../../tasks/schedules/rules.js";
import { concurrencyOf } from "./concurrency.js";
import type { Parameter } from "./connection.js";
import { failedOutcome } from "./failures.js";
import { askAgain } from "./locked-rows.js";
import {
  DECLARE,
  type DeclaredRow,
  DUE,
  type DueRow,
  FIRE,
  type FiredRow,
  GET_SCHEDULE,
  LIST_SCHEDULES,
  PAUSE_SCHEDULE,
  REMOVE_SCHEDULE,
  RESUME_SCHEDULE,
  type ScheduleRow,
} from "./schedule-statements.js";
import type { Connections } from "./shared.js";
import { isoOf } from "./views.js";

export class PostgresScheduleStore implements ScheduleStore {
  readonly ticking: Ticking = {
    due: (limit, except) => this.#due(limit, except),
    fire: (request, options) => this.#fire(request, options),
  };
  readonly #backend: Connections["backend"];
  readonly #clock: Clock;

  constructor({ backend, env }: Pick<Connections, "backend" | "env">) {
    [this.#backend, this.#clock] = [backend, env.clock];
  }

  async declare(request: DeclareRequest, options?: CallOptions): Promise<DeclareOutcome> {
    const { namespace, name, declaration } = request;
    const values = [namespace, name, MOST_SCHEDULES, ...columnsOf(declaration)];
    try {
      const [row] = await this.#backend.general.query<DeclaredRow>(DECLARE, values, options);
      if (!row) return { status: "full" };
      const { revision, before } = row;
      if (before === null) return { status: "declared", change: "added" };
      return { status: "declared", change: revision === before ? "none" : "changed" };
    } catch (error) {
      return failedOutcome(error);
    }
  }

  async get({ namespace, name }: ScheduleKey): Promise<ScheduleView | null> {
    const [row] = await this.#backend.general.query<ScheduleRow>(GET_SCHEDULE, [namespace, name]);
    return row ? viewOf(namespace, row) : null;
  }

  async list({ namespace, limit = 100, cursor }: ScheduleQuery): Promise<Page<ScheduleView>> {
    const after = cursor === undefined ? "" : resourceOfCursor(cursor);
    const values = [namespace, after, limit + 1];
    const rows = await this.#backend.general.query<ScheduleRow>(LIST_SCHEDULES, values);
    const items = rows.slice(0, limit).map((row) => viewOf(namespace, row));
    const last = rows.length > limit ? items.at(-1) : undefined;
    return { items, nextCursor: last ? cursorAfter(last.name) : null };
  }

  pause({ namespace, name, by, reason }: PauseScheduleRequest): Promise<ScheduleChange> {
    return this.#change(PAUSE_SCHEDULE, [namespace, name, by, reason]);
  }

  resume({ namespace, name }: ScheduleKey): Promise<ScheduleChange> {
    return this.#change(RESUME_SCHEDULE, [namespace, name]);
  }

  async remove({ namespace, name }: ScheduleKey): Promise<boolean> {
    return (await this.#change(REMOVE_SCHEDULE, [namespace, name])) === "changed";
  }

  async runNow({ namespace, name, taskId }: RunNowRequest): Promise<RunNowOutcome> {
    const values = [[taskId], [null], namespace, name, null, null, null, null, 0];
    let outcome: RunNowOutcome | undefined;
    try {
      await askAgain(this.#clock, [values], async (asked) => {
        const rows = await this.#backend.general.query(FIRE, values);
        if (rows.length > 0) outcome = { status: "enqueued", id: taskId };
        else if ((await this.get({ namespace, name })) === null) outcome = { status: "unknown" };
        return outcome ? [] : asked;
      });
      if (outcome) return outcome;
      const error = new StoreUnavailableError(`another statement holds the schedule "${name}"`, {
        outcome: "none",
      });
      return { status: "failed", applied: "no", retryable: true, error };
    } catch (error) {
      return failedOutcome(error);
    }
  }

  async #change(statement: string, values: readonly Parameter[]): Promise<ScheduleChange> {
    if ((await this.#backend.general.query(statement, values)).length > 0) return "changed";
    const [namespace, name] = values as [string, string];
    return (await this.get({ namespace, name })) === null ? "unknown" : "unchanged";
  }

  async #due(limit: number, except: readonly number[] = []): Promise<DueSchedules> {
    const rows = await this.#backend.general.query<DueRow>(DUE, [limit, except]);
    const { now = 0, nextAt = null } = rows[0] ?? {};
    return {
      schedules: rows.flatMap(dueOf),
      nowMs: Math.floor(now),
      nextInMs: nextAt === null ? null : nextAt - now,
    };
  }

  async #fire(request: FireRequest, options?: CallOptions): Promise<FireOutcome> {
    const { namespace, name, revision, fires, lastFireAtMs, waiting, dueAtMs, skipped } = request;
    const ids = fires.map(({ id }) => id);
    const times = fires.map(({ scheduledAtMs }) => scheduledAtMs);
    const rest = [lastFireAtMs, JSON.stringify(waiting), dueAtMs, skipped];
    try {
      const values = [ids, times, namespace, name, revision, ...rest];
      const [moved] = await this.#backend.general.query<FiredRow>(FIRE, values, options);
      if (!moved) return { status: "moved" };
      const { kind, queue, taskIds } = moved;
      return { status: "fired", taskIds, kind, queue };
    } catch (error) {
      return failedOutcome(error);
    }
  }
}

/** In the order of the columns of DECLARE. */
function columnsOf(declaration: ScheduleDeclaration): Parameter[] {
  const { cron, timeZone, everyMs, catchUp, overlap, jitterMs, task } = declaration;
  const { kind, queue, priority, data, maxAttempts, crashLimit, retain, concurrency } = task;
  return [
    cron,
    timeZone,
    everyMs,
    mostOf(catchUp),
    overlap,
    jitterMs,
    kind,
    queue,
    priority,
    encodeJson(data),
    maxAttempts,
    crashLimit,
    task.backoff.firstMs,
    task.backoff.longestMs,
    retain.doneMs,
    retain.deadMs,
    concurrency?.key ?? null,
    concurrency?.perKey ?? null,
    concurrency?.order === "any",
    task.version,
    concurrency?.rate?.limit ?? null,
    concurrency?.rate?.perMs ?? null,
    task.maxRunMs ?? null,
    task.startByMs ?? null,
    task.backoff.factor,
    task.backoff.jitter,
  ];
}

function dueOf({ namespace, ...row }: DueRow): DueSchedule | [] {
  if (namespace === null) return [];
  const { name, revision, cron, timeZone, everyMs, overlap, jitterMs, isRunning } = row;
  const catchUp = catchUpOf(row.catchUp);
  const declaration = { cron, timeZone, everyMs, catchUp, overlap, jitterMs };
  const waiting = JSON.parse(row.waiting) as number[];
  const lastFireAtMs = Math.round(row.lastFireAt);
  return { namespace, name, revision, declaration, lastFireAtMs, waiting, isRunning };
}

function viewOf(namespace: string, row: ScheduleRow): ScheduleView {
  const { name, cron, timeZone, everyMs, overlap, jitterMs, kind, queue, priority } = row;
  const { maxAttempts, crashLimit, firstMs, longestMs, factor, jitter } = row;
  const { keepDoneMs, keepDeadMs } = row;
  const { pausedAt, pausedBy, pauseReason, fired, skipped, taskId, taskFinishedAt } = row;
  return {
    namespace,
    name,
    cron,
    timeZone,
    everyMs,
    catchUp: catchUpOf(row.catchUp),
    overlap,
    jitterMs,
    task: {
      kind,
      queue,
      priority,
      data: JSON.parse(row.data) as Json,
      maxAttempts,
      crashLimit,
      backoff: { firstMs, longestMs, factor, jitter },
      retain: { doneMs: keepDoneMs, deadMs: keepDeadMs },
      concurrency: concurrencyOf(row),
      version: row.version,
      maxRunMs: row.maxRunMs,
      startByMs: row.startByMs,
    },
    declaredAt: isoOf(row.declaredAt),
    paused:
      pausedAt === null ? null : { at: isoOf(pausedAt), by: pausedBy ?? "", reason: pauseReason },
    lastFireAt: isoOf(Math.round(row.lastFireAt)),
    waiting: (JSON.parse(row.waiting) as number[]).length,
    fired,
    skipped,
    lastTask:
      taskId === null
        ? null
        : {
            id: taskId,
            state: row.taskState,
            finishedAt: taskFinishedAt === null ? null : isoOf(taskFinishedAt),
            error: row.taskError,
          },
  };
}
