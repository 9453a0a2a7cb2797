/** Tasks in PostgreSQL: requests to statements, rows to outcomes. What is decided stands in SQL. */
import { setMaxListeners } from "node:events";
import type { Clock, Random } from "../../env/index.js";
import type { CallOptions, LeaseView, Page } from "../../lease/index.js";
import type {
  AdminOutcome,
  ClaimedTask,
  ClaimOptions,
  ClaimOutcome,
  ClaimRequest,
  CompleteOutcome,
  CompleteRequest,
  EnqueueOptions,
  EnqueueOutcome,
  FailOutcome,
  FailRequest,
  GiveBackOutcome,
  HeartbeatOutcome,
  HeartbeatRequest,
  NewTask,
  Reaped,
  Refused,
  TaskCapabilities,
  TaskDetails,
  TaskGrant,
  TaskKey,
  TaskLeaseQuery,
  TaskQuery,
  TaskState,
  TaskStore,
  TaskView,
  TaskWatchEvent,
} from "../../tasks/port.js";
import { encodeJson, isUnfinished, storedError, storedId, storedTask } from "../../tasks/record.js";
import { refusal } from "../../tasks/rules.js";
import type { Connections } from "./connections.js";
import { failedOutcome } from "./failures.js";
import { type Listener, watchEvents } from "./listen.js";
import type { Sql } from "./query.js";
import { grantColumns, keyColumns, type Statement, TaskCalls } from "./task-calls.js";
import { type ClaimedRow, claimSql, FORGET_CLAIMS } from "./task-claim-sql.js";
import { enqueue, runIn } from "./task-enqueue.js";
import { type LeaseRow, leasePage, leasesSql } from "./task-leases.js";
import {
  CANCEL,
  type ChangedRow,
  COMPLETE,
  DELETE,
  type DeletedRow,
  FAIL,
  type FailedRow,
  GIVE_BACK,
  HEARTBEAT,
  REAP,
  RETRY,
  type ReapedRow,
  type RenewedRow,
  type StandingRow,
} from "./task-sql.js";
import {
  COUNTS,
  type DetailsRow,
  decode,
  detailsOf,
  GET,
  iso,
  listSql,
  type ViewRow,
  viewOf,
} from "./task-views.js";

/** One statement ends so many leases at most. */
const REAPED_AT_ONCE = 1_000;
/** A claim is repeated within seconds, if at all. */
const CLAIMS_KEPT_MS = 600_000;
const FORGET_EVERY_MS = 60_000;
export class PostgresTaskStore implements TaskStore {
  readonly capabilities: TaskCapabilities;
  readonly #general: Sql;
  readonly #control: Sql;
  readonly #listener: Listener;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #closing = new AbortController();
  readonly #calls: TaskCalls;
  #forgetAtMs: number;

  constructor({ backend, listener, env }: Connections) {
    this.#general = backend.general;
    this.#control = backend.control;
    this.#listener = listener;
    this.#clock = env.clock;
    // Every watch listens to it.
    setMaxListeners(0, this.#closing.signal);
    this.#random = env.random;
    this.#calls = new TaskCalls(env.clock, this.#closing.signal);
    this.#forgetAtMs = env.clock.monotonic() + FORGET_EVERY_MS;
    this.capabilities = {
      ttl: { minMs: 100, maxMs: 2 ** 31 - 1, stepMs: 1 },
      watch: listener.mode,
      remoteWait: false,
      reaps: false,
    };
  }

  async enqueue(
    added: readonly NewTask[],
    { client, ...options }: EnqueueOptions = {},
  ): Promise<EnqueueOutcome[]> {
    const tasks = added.map(storedTask);
    try {
      this.#calls.assertOpen();
    } catch (error) {
      return tasks.map(() => failedOutcome(error));
    }
    return enqueue(tasks, client ? runIn(client) : this.#calls.within(this.#general, options));
  }

  async claim(request: ClaimRequest, options?: ClaimOptions): Promise<ClaimOutcome> {
    const { namespace, claimId, holder, ttlMs, limit, kinds } = request;
    const queues = [...new Set(request.queues)];
    try {
      const run = this.#calls.within(this.#general, options);
      if (queues.length === 0) return { status: "claimed", tasks: [] };
      const rows = await run<ClaimedRow>(claimSql(queues.length), [
        ...[namespace, claimId, holder, ttlMs, limit, kinds],
        ...queues,
      ]);
      return { status: "claimed", tasks: rows.map(claimedTask) };
    } catch (error) {
      return failedOutcome(error);
    }
  }

  heartbeat(
    requests: readonly HeartbeatRequest[],
    options?: CallOptions,
  ): Promise<HeartbeatOutcome[]> {
    const statement: Statement<HeartbeatRequest, HeartbeatOutcome, RenewedRow> = {
      // A crowd of claims and reports must not hold up what keeps tasks alive.
      sql: this.#control,
      text: HEARTBEAT,
      values: (entries) => [
        ...grantColumns(entries),
        entries.map(({ request }) => request.ttlMs),
        entries.map(({ request: { progress } }) =>
          progress === undefined ? null : encodeJson(progress),
        ),
      ],
      changed: ({ expiresAt, now }, { ttlMs }) => ({
        status: "renewed",
        ...termOf({ ttlMs, expiresAt, now }),
      }),
      passedOver: refused,
    };
    return this.#calls.decide(statement, requests, options);
  }

  complete(
    requests: readonly CompleteRequest[],
    options?: CallOptions,
  ): Promise<CompleteOutcome[]> {
    const statement: Statement<CompleteRequest, CompleteOutcome, ChangedRow> = {
      sql: this.#general,
      text: COMPLETE,
      values: (entries) => [
        ...grantColumns(entries),
        entries.map(({ request }) => encodeJson(request.output)),
      ],
      changed: (_, { output }) => ({
        status: "completed",
        repeated: false,
        output: decode(encodeJson(output)),
      }),
      passedOver: (standing) =>
        standing?.own && standing.state === "done"
          ? { status: "completed", repeated: true, output: decode(standing.output) }
          : refused(standing),
    };
    return this.#calls.decide(statement, requests, options);
  }

  fail(requests: readonly FailRequest[], options?: CallOptions): Promise<FailOutcome[]> {
    const statement: Statement<FailRequest, FailOutcome, FailedRow> = {
      sql: this.#general,
      text: FAIL,
      values: (entries) => [
        ...grantColumns(entries),
        entries.map(({ request }) => storedError(request.error)),
        entries.map(({ request }) => request.retryInMs),
        entries.map(({ request }) => request.final ?? false),
        entries.map(() => this.#random.float()),
      ],
      changed: recorded,
      passedOver: (standing) =>
        standing?.own && standing.result === "failed" && isRecorded(standing)
          ? recorded(standing)
          : refused(standing),
    };
    return this.#calls.decide(statement, requests, options);
  }

  giveBack(requests: readonly TaskGrant[], options?: CallOptions): Promise<GiveBackOutcome[]> {
    const statement: Statement<TaskGrant, GiveBackOutcome, ChangedRow> = {
      sql: this.#general,
      text: GIVE_BACK,
      values: grantColumns,
      changed: () => ({ status: "returned" }),
      passedOver: (standing) =>
        standing?.own && standing.result === "returned" && standing.state === "pending"
          ? { status: "returned" }
          : refused(standing),
    };
    return this.#calls.decide(statement, requests, options);
  }

  cancel(tasks: readonly TaskKey[]): Promise<AdminOutcome[]> {
    const statement: Statement<TaskKey, AdminOutcome, ChangedRow> = {
      sql: this.#general,
      text: CANCEL,
      values: keyColumns,
      changed: () => ({ status: "ok", state: "cancelled" }),
      passedOver(standing) {
        if (!standing) return { status: "unknown" };
        const { state } = standing;
        if (state === "cancelled") return { status: "ok", state };
        return state === "done" || state === "dead" ? { status: "conflict", state } : null;
      },
      next: (before) => before,
    };
    return this.#calls.decide(statement, tasks);
  }

  retry(tasks: readonly TaskKey[]): Promise<AdminOutcome[]> {
    const statement: Statement<TaskKey, AdminOutcome, ChangedRow> = {
      sql: this.#general,
      text: RETRY,
      values: keyColumns,
      changed: () => ({ status: "ok", state: "pending" }),
      passedOver(standing) {
        if (!standing) return { status: "unknown" };
        const { state, rival } = standing;
        const conflict = state === "running" || state === "done" || (state !== "pending" && rival);
        return conflict ? { status: "conflict", state } : null;
      },
      next: (before) => before,
    };
    return this.#calls.decide(statement, tasks);
  }

  /** Forgets tasks that have ended, with their attempts. */
  delete(tasks: readonly TaskKey[]): Promise<AdminOutcome[]> {
    const statement: Statement<TaskKey, AdminOutcome, DeletedRow> = {
      sql: this.#general,
      text: DELETE,
      values: keyColumns,
      changed: ({ state }) => ({ status: "ok", state }),
      passedOver(standing) {
        if (!standing) return { status: "unknown" };
        const { state } = standing;
        return isUnfinished(state) ? { status: "conflict", state } : null;
      },
      next: (before) => (before.status === "ok" ? { status: "unknown" } : before),
    };
    return this.#calls.decide(statement, tasks);
  }

  async get({ namespace, id }: TaskKey): Promise<TaskDetails | null> {
    const run = this.#calls.within(this.#general);
    const stored = storedId(id);
    if (!stored) return null;
    const [row] = await run<DetailsRow>(GET, [namespace, stored]);
    return row ? detailsOf(row) : null;
  }

  async list(query: TaskQuery): Promise<Page<TaskView>> {
    const { limit = 100 } = query;
    const rows = await this.#calls.within(this.#general)<ViewRow>(...listSql(query, limit));
    const items = rows.slice(0, limit).map(viewOf);
    return { items, nextCursor: rows.length > limit ? (items.at(-1)?.id ?? null) : null };
  }

  async leases(query: TaskLeaseQuery): Promise<Page<LeaseView>> {
    const { namespace, limit = 100 } = query;
    const statement = leasesSql(query, limit + 1);
    const run = this.#calls.within(this.#general);
    return leasePage(namespace, statement ? await run<LeaseRow>(...statement) : [], limit);
  }

  async counts(namespace: string): Promise<Record<TaskState, number>> {
    const run = this.#calls.within(this.#general);
    const rows = await run<{ state: TaskState; count: number }>(COUNTS, [namespace]);
    const counts = { pending: 0, running: 0, done: 0, dead: 0, cancelled: 0 };
    for (const { state, count } of rows) counts[state] = count;
    return counts;
  }

  async reap(): Promise<readonly Reaped[]> {
    const reaped: Reaped[] = [];
    for (let rows: readonly ReapedRow[] = []; ; ) {
      rows = await this.#calls.within(this.#general)<ReapedRow>(REAP, [REAPED_AT_ONCE]);
      for (const { namespace, id, holder, token, state } of rows) {
        reaped.push({ namespace, id, holder, token, state });
      }
      if (rows.length < REAPED_AT_ONCE) break;
    }
    const nowMs = this.#clock.monotonic();
    if (nowMs >= this.#forgetAtMs) {
      this.#forgetAtMs = nowMs + FORGET_EVERY_MS;
      await this.#calls.within(this.#general)(FORGET_CLAIMS, [CLAIMS_KEPT_MS]);
    }
    return reaped;
  }

  async *watch(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<TaskWatchEvent, void, undefined> {
    this.#calls.assertOpen();
    yield* watchEvents(
      this.#listener,
      ([topic, place, queue]): TaskWatchEvent | null =>
        topic === "task" && place === namespace ? { type: "ready", queue } : null,
      [signal, this.#closing.signal],
    );
  }

  /** Refuses calls and ends watches. The connections belong to the database that it is part of. */
  async close(): Promise<void> {
    this.#closing.abort();
  }
}

function refused(standing: StandingRow | null): Refused | null {
  const reason = refusal(standing);
  return reason && { status: "refused", reason };
}

type Recorded = Pick<FailedRow, "state" | "retryInMs">;

function isRecorded(standing: Pick<StandingRow, "state" | "retryInMs">): standing is Recorded {
  return standing.state === "pending" || standing.state === "dead";
}

function recorded({ state, retryInMs }: Recorded): FailOutcome {
  const leftMs = state === "dead" ? null : Math.max(0, Math.ceil(retryInMs));
  return { status: "recorded", state, retryInMs: leftMs };
}

function claimedTask(row: ClaimedRow): ClaimedTask {
  const { expiresAt, now, ttlMs, data, scheduledAt, ...task } = row;
  return {
    ...task,
    data: decode(data),
    scheduledAt: iso(scheduledAt),
    ...termOf({ ttlMs, expiresAt, now }),
  };
}

/** Whole milliseconds, rounded to the side on which the holder stops too early. */
function termOf(times: { ttlMs: number; expiresAt: number; now: number }) {
  const { ttlMs, expiresAt, now } = times;
  return {
    ttlMs,
    remainingMs: Math.floor((expiresAt - now) / 1_000),
    expiresAt: iso(expiresAt),
  };
}
