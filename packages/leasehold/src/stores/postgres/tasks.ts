/** Tasks in PostgreSQL: the port over the task statements. */
import { setMaxListeners } from "node:events";
import { type Clock, type Random, sleep } from "../../env/index.js";
import {
  type CallOptions,
  checkInTransaction,
  type LeaseView,
  type Page,
} from "../../lease/index.js";
import type { BlockedKey, BlockedKeysQuery } from "../../tasks/blocked-keys.js";
import { refuseAnothersClaim } from "../../tasks/claims.js";
import { ATTEMPTS_KEPT } from "../../tasks/payloads.js";
import type {
  AdminOutcome,
  ClaimedTask,
  ClaimOptions,
  ClaimOutcome,
  ClaimRequest,
  CompleteOutcome,
  CompleteRequest,
  DueKind,
  DueKindsQuery,
  EnqueueOptions,
  EnqueueOutcome,
  FailOutcome,
  FailRequest,
  HeartbeatOutcome,
  HeartbeatRequest,
  NewTask,
  ReadResultsOptions,
  Reaped,
  RequeueOutcome,
  RequeueRequest,
  TaskCapabilities,
  TaskDetails,
  TaskEndEvent,
  TaskKey,
  TaskLeaseQuery,
  TaskLimits,
  TaskQuery,
  TaskResult,
  TaskState,
  TaskStatistics,
  TaskStatsQuery,
  TaskStore,
  TaskView,
  TaskWatchEvent,
} from "../../tasks/port.js";
import { DEFAULT_GRACE_MS, NO_TASKS } from "../../tasks/port.js";
import { isTaskId, storedTask, taskCursor } from "../../tasks/record.js";
import type { Schema, Sql } from "./connection.js";
import { failedOutcome, storeError } from "./failures.js";
import type { Connections } from "./shared.js";
import { blockedKeys } from "./task-blocked-keys.js";
import { type Run, TaskCalls } from "./task-calls.js";
import {
  claimedPlaces,
  claimedRows,
  FORGET_ATTEMPTS,
  FORGET_CLAIMS,
} from "./task-claim-statements.js";
import { enqueue, runIn } from "./task-enqueue.js";
import { FORGET_KEYS, FORGET_RATES, kindsTaken } from "./task-key-statements.js";
import { tasksOf } from "./task-lean-outcomes.js";
import { CLAIM_FIRST, type LeanClaimedRow } from "./task-lean-statements.js";
import { type LeaseRow, leasePage, leasesSql } from "./task-leases.js";
import { postgresLimits } from "./task-limits.js";
import {
  cancelling,
  claimedTask,
  completing,
  deleting,
  failing,
  renewing,
  requeueing,
  retrying,
} from "./task-outcomes.js";
import { COLLECT, REAP, type ReapedRow } from "./task-statements.js";
import {
  COUNTS,
  type DetailsRow,
  DUE_KINDS,
  type DueKindRow,
  detailsOf,
  dueKindOf,
  GET,
  type ListedRow,
  listedOf,
  listSql,
} from "./task-views.js";
import { FORGET_WAITS, readResults, readStats } from "./task-waits.js";
import { type Listener, watchEvents } from "./watch.js";

/** The number of leases that one statement reaps at most. */
const REAPED_AT_ONCE = 1_000;
/** A client repeats a claim within seconds, if at all. */
const CLAIMS_KEPT_MS = 600_000;
const FORGET_EVERY_MS = 60_000;
const KEYS_KEPT_MS = 600_000;
/** Attempts of a task. */
const FORGET_ATTEMPTS_EVERY = 10;

export class PostgresTaskStore implements TaskStore {
  readonly capabilities: TaskCapabilities;
  readonly limits: TaskLimits;
  readonly #schema: Schema;
  readonly #general: Sql;
  readonly #control: Sql;
  readonly #listener: Listener;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #closing = new AbortController();
  readonly #calls: TaskCalls;
  #forgetAtMs: number;

  constructor({ backend, listener, env }: Connections) {
    this.#schema = backend.schema;
    this.#general = backend.general;
    this.#control = backend.control;
    this.#listener = listener;
    this.#clock = env.clock;
    // Every watch adds a listener.
    setMaxListeners(0, this.#closing.signal);
    this.#random = env.random;
    this.#calls = new TaskCalls(env.clock, this.#closing.signal);
    this.limits = postgresLimits((options) => this.#calls.within(this.#general, options));
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
    if (!client) return enqueue(tasks, this.#calls.within(this.#general, options));
    try {
      await checkInTransaction(client, this.#schema.sql("leasehold.task"));
    } catch (error) {
      // The check changes nothing, whether or not it was answered.
      return tasks.map(() => failedOutcome(storeError(error, false)));
    }
    return enqueue(tasks, runIn(client, this.#schema));
  }

  async claim(request: ClaimRequest, options?: ClaimOptions): Promise<ClaimOutcome> {
    const { namespace, claimId, holder, ttlMs, limit, graceMs = DEFAULT_GRACE_MS } = request;
    const kinds = kindsTaken(request);
    const queues = [...new Set(request.queues)];
    try {
      const run = this.#calls.within(this.#general, options);
      if (queues.length === 0) return { status: "claimed", tasks: [] };
      let limited = false;
      if (queues.length === 1) {
        const values = [namespace, claimId, holder, ttlMs, limit, kinds, graceMs, ...queues];
        const rows = await run<LeanClaimedRow>(CLAIM_FIRST, values);
        limited = rows[0]?.limited ?? false;
        const tasks = tasksOf(request, rows);
        if (tasks) {
          await this.#forgetAttempts(request, tasks, run);
          return { status: "claimed", tasks };
        }
      }
      const places = claimedPlaces(queues.length);
      const nulls = Array.from({ length: places - queues.length }, () => null);
      const asked = [namespace, claimId, holder, ttlMs, limit, kinds, graceMs];
      const values = [...asked, ...queues, ...nulls];
      // The lean statement has left tasks with a key or a limit to this one.
      const first = queues.length === 1 ? (limited ? "limited" : "keyed") : "plain";
      const pause = (looks: number) => sleep(this.#clock, 2 * looks);
      const { rows, retryInMs } = await claimedRows(run, places, first, values, pause);
      const refused = refuseAnothersClaim(
        holder,
        rows.map((row) => row.holder),
      );
      await this.#forgetAttempts(request, rows, run);
      const wait = rows.length === 0 && retryInMs !== null ? { retryInMs } : {};
      return refused ?? { status: "claimed", tasks: rows.map(claimedTask), ...wait };
    } catch (error) {
      return failedOutcome(error);
    }
  }

  heartbeat(
    requests: readonly HeartbeatRequest[],
    options?: CallOptions,
  ): Promise<HeartbeatOutcome[]> {
    // Claims and completions must not delay heartbeats, which keep tasks alive.
    return this.#calls.decide(renewing(this.#control), requests, options);
  }

  complete(
    requests: readonly CompleteRequest[],
    options?: CallOptions,
  ): Promise<CompleteOutcome[]> {
    return this.#calls.decide(completing(this.#general), requests, options);
  }

  fail(requests: readonly FailRequest[], options?: CallOptions): Promise<FailOutcome[]> {
    return this.#calls.decide(failing(this.#general, this.#random), requests, options);
  }

  requeue(requests: readonly RequeueRequest[], options?: CallOptions): Promise<RequeueOutcome[]> {
    return this.#calls.decide(requeueing(this.#general), requests, options);
  }

  cancel(tasks: readonly TaskKey[]): Promise<AdminOutcome[]> {
    return this.#calls.decide(cancelling(this.#general), tasks);
  }

  retry(tasks: readonly TaskKey[]): Promise<AdminOutcome[]> {
    return this.#calls.decide(retrying(this.#general), tasks);
  }

  delete(tasks: readonly TaskKey[]): Promise<AdminOutcome[]> {
    return this.#calls.decide(deleting(this.#general), tasks);
  }

  async get({ namespace, id }: TaskKey): Promise<TaskDetails | null> {
    const run = this.#calls.within(this.#general);
    if (!isTaskId(id)) return null;
    const [row] = await run<DetailsRow>(GET, [namespace, id]);
    return row ? detailsOf(row) : null;
  }

  async list(query: TaskQuery): Promise<Page<TaskView>> {
    const { limit = 100 } = query;
    const rows = await this.#calls.within(this.#general)<ListedRow>(...listSql(query, limit));
    const page = rows.slice(0, limit);
    const last = rows.length > limit ? page.at(-1) : undefined;
    return { items: page.map(listedOf), nextCursor: last ? taskCursor(last) : null };
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
    const counts = { ...NO_TASKS };
    for (const { state, count } of rows) counts[state] = count;
    return counts;
  }

  async dueKinds(query: DueKindsQuery): Promise<readonly DueKind[]> {
    const { namespace, dueForMs, limit, queues = null, kinds = null } = query;
    const run = this.#calls.within(this.#general);
    const rows = await run<DueKindRow>(DUE_KINDS, [namespace, dueForMs, limit, queues, kinds]);
    return rows.map(dueKindOf);
  }

  async blockedKeys(query: BlockedKeysQuery): Promise<readonly BlockedKey[]> {
    return blockedKeys(this.#calls.within(this.#general), query);
  }

  async results(
    tasks: readonly TaskKey[],
    { notifyMs, ...options }: ReadResultsOptions = {},
  ): Promise<readonly TaskResult[]> {
    return readResults(this.#calls.within(this.#general, options), tasks, notifyMs);
  }

  async stats(query: TaskStatsQuery): Promise<TaskStatistics> {
    return readStats(this.#calls.within(this.#general), query);
  }

  async reap(): Promise<readonly Reaped[]> {
    const reaped: Reaped[] = [];
    for (let rows: readonly ReapedRow[] = []; ; ) {
      rows = await this.#calls.within(this.#general)<ReapedRow>(REAP, [REAPED_AT_ONCE]);
      for (const { namespace, id, holder, token, state } of rows) {
        reaped.push({ namespace, id, holder, token, state } as Reaped);
      }
      if (rows.length < REAPED_AT_ONCE) break;
    }
    const nowMs = this.#clock.monotonic();
    if (nowMs >= this.#forgetAtMs) {
      this.#forgetAtMs = nowMs + FORGET_EVERY_MS;
      await this.#calls.within(this.#general)(FORGET_CLAIMS, [CLAIMS_KEPT_MS]);
      await this.#calls.within(this.#general)(FORGET_WAITS, []);
      await this.#calls.within(this.#general)(FORGET_KEYS, [KEYS_KEPT_MS]);
      await this.#calls.within(this.#general)(FORGET_RATES, [KEYS_KEPT_MS]);
    }
    return reaped;
  }

  async collect(limit: number): Promise<number> {
    const run = this.#calls.within(this.#general);
    const [row] = await run<{ deleted: number }>(COLLECT, [limit]);
    return row?.deleted ?? 0;
  }

  /** Every so often, so that a claim of such a task costs no second statement. If it fails, the claim is repeated. */
  async #forgetAttempts(
    { namespace }: ClaimRequest,
    claimed: readonly Pick<ClaimedTask, "id" | "attempt">[],
    run: Run,
  ): Promise<void> {
    const long = claimed.filter(
      ({ attempt }) => attempt > ATTEMPTS_KEPT && attempt % FORGET_ATTEMPTS_EVERY === 0,
    );
    if (long.length === 0) return;
    await run(FORGET_ATTEMPTS, [
      long.map(() => namespace),
      long.map(({ id }) => id),
      long.map(({ attempt }) => attempt - ATTEMPTS_KEPT),
    ]);
  }

  async *watch(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<TaskWatchEvent, void, undefined> {
    this.#calls.assertOpen();
    yield* watchEvents(
      this.#listener,
      ([topic, place, queue, inMs]): TaskWatchEvent | null =>
        topic === "task" && place === namespace ? readyOf(queue, inMs) : null,
      [signal, this.#closing.signal],
    );
  }

  async *watchResults(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<TaskEndEvent, void, undefined> {
    this.#calls.assertOpen();
    yield* watchEvents(
      this.#listener,
      ([topic, place, id]): TaskEndEvent | null =>
        topic === "ended" && place === namespace ? { type: "ended", id } : null,
      [signal, this.#closing.signal],
    );
  }

  /** Rejects further calls and ends watches. The database object closes the connections. */
  async close(): Promise<void> {
    this.#closing.abort();
  }
}

/** An empty name: a task of any queue may be claimable. */
function readyOf(queue: string, inMs: string | undefined): TaskWatchEvent {
  if (queue === "") return { type: "resync" };
  return { type: "ready", queue, ...(inMs !== undefined && { inMs: Number(inMs) }) };
}
