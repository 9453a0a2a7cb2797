/** Tasks on a Leasehold server: the port over /api/tasks. */
import { zip } from "../../env/index.js";
import {
  type CallOptions,
  type Failed,
  InvalidOptionError,
  type LeaseView,
  type Page,
  withoutUndefined,
} from "../../lease/index.js";
import type {
  AdminOutcome,
  BlockedKey,
  BlockedKeysQuery,
  ClaimOptions,
  ClaimOutcome,
  ClaimRequest,
  CompleteOutcome,
  CompleteRequest,
  EnqueueOptions,
  EnqueueOutcome,
  FailOutcome,
  FailRequest,
  HeartbeatOutcome,
  HeartbeatRequest,
  NewTask,
  ReadResultsOptions,
  Reaped,
  Refused,
  RequeueOutcome,
  RequeueRequest,
  TaskCapabilities,
  TaskDetails,
  TaskEndEvent,
  TaskGrant,
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
import { versionTaken } from "../../tasks/port.js";
import { isTaskId, storedTask } from "../../tasks/record.js";
import type * as wire from "../../wire/index.js";
import {
  BOUNDS,
  fromWireClaimed,
  fromWireDetails,
  fromWireTask,
  taskInPath,
} from "../../wire/index.js";
import { sendBatch } from "./batch.js";
import {
  type Connection,
  DEFAULT_BUDGET_MS,
  failed,
  HttpClient,
  isFailed,
  queryOf,
} from "./connection.js";
import { HttpTaskLimits } from "./limits.js";
import { followEvents } from "./watch.js";

export class HttpTaskStore implements TaskStore {
  readonly capabilities: TaskCapabilities;
  declare readonly limits?: TaskLimits;
  readonly #client: HttpClient;

  /** @param keepsLimits whether the server does: older ones keep none */
  constructor(
    connection: Connection,
    capabilities: Pick<TaskCapabilities, "ttl" | "watch">,
    keepsLimits: boolean,
  ) {
    this.#client = new HttpClient(connection);
    if (keepsLimits) this.limits = new HttpTaskLimits(this.#client);
    // The server waits for tasks and reaps them.
    this.capabilities = { ...capabilities, remoteWait: true, reaps: true };
  }

  async enqueue(
    tasks: readonly NewTask[],
    { client, ...options }: EnqueueOptions = {},
  ): Promise<EnqueueOutcome[]> {
    if (client) {
      throw new InvalidOptionError(
        "client",
        "needs tasks in the SQL database of the transaction: connect to PostgreSQL or PGlite itself",
      );
    }
    const requests = tasks.map(storedTask).map(({ namespace, data, scheduledAt, ...task }) => {
      this.#client.checkNamespace(namespace);
      const body = { ...task, task_data: data, scheduled_at: scheduledAt };
      return body satisfies wire.NewTask;
    });
    return this.#send<EnqueueOutcome>("/api/tasks", requests, options);
  }

  async claim(request: ClaimRequest, options: ClaimOptions = {}): Promise<ClaimOutcome> {
    const { namespace, holder, limit, waitMs = 0, ...wanted } = request;
    this.#client.checkNamespace(namespace);
    if (wanted.queues.length === 0) return { status: "claimed", tasks: [] };
    const sent = this.#client.send({
      method: "POST",
      path: "/api/tasks/next",
      signal: options.signal,
      body: JSON.stringify({
        ...wanted,
        processor: holder,
        limit: Math.min(limit, BOUNDS.claim),
        waitMs: Math.min(Math.floor(waitMs), BOUNDS.waitMs),
      } satisfies wire.NextRequest),
      budgetMs: options.timeoutMs ?? waitMs + DEFAULT_BUDGET_MS,
      waitMs: Math.min(waitMs, BOUNDS.waitMs),
    });
    const answer = await sent.catch((error: unknown) => {
      if (error instanceof InvalidOptionError) return failed("no", error);
      throw error;
    });
    if (isFailed(answer)) return answer;
    if (answer.status === 204) return { status: "claimed", tasks: [] };
    const { tasks, waitedMs } = answer.body as wire.NextAnswer;
    return { status: "claimed", tasks: tasks.map(fromWireClaimed), waitedMs };
  }

  async heartbeat(
    requests: readonly HeartbeatRequest[],
    options?: CallOptions,
  ): Promise<HeartbeatOutcome[]> {
    const bodies = requests.map(({ ttlMs, progress, checkpoint, ...grant }) => {
      const news = withoutUndefined({ progress, checkpoint });
      return { ...this.#grant(grant), ttlMs, ...news } satisfies wire.HeartbeatRequest;
    });
    const path = "/api/tasks/heartbeat";
    const outcomes = await this.#send<wire.HeartbeatOutcome>(path, bodies, options);
    return outcomes.map((outcome) => {
      if (outcome.status !== "renewed") return outcome as Refused | Failed;
      const { must_heartbeat_before, ...renewed } = outcome;
      return { ...renewed, expiresAt: must_heartbeat_before };
    });
  }

  async complete(
    requests: readonly CompleteRequest[],
    options?: CallOptions,
  ): Promise<CompleteOutcome[]> {
    const bodies = requests.map(({ output, ...grant }) => {
      const body = { ...this.#grant(grant), task_output: output };
      return body satisfies wire.CompleteRequest;
    });
    const path = "/api/tasks/complete";
    const outcomes = await this.#send<wire.CompleteOutcome>(path, bodies, options);
    return outcomes.map((outcome) => {
      if (outcome.status !== "completed") return outcome as Refused | Failed;
      const { task_output, ...completed } = outcome;
      return { ...completed, output: task_output };
    });
  }

  async fail(requests: readonly FailRequest[], options?: CallOptions): Promise<FailOutcome[]> {
    const bodies = requests.map(({ error, retryInMs, final = false, ...grant }) => {
      // A final failure has no next attempt, and the server refuses a delay beside it.
      const delayMs = final ? null : retryInMs;
      const body = { ...this.#grant(grant), error, retryInMs: delayMs, final };
      return body satisfies wire.FailRequest;
    });
    return this.#send<FailOutcome>("/api/tasks/fail", bodies, options);
  }

  async requeue(
    requests: readonly RequeueRequest[],
    options?: CallOptions,
  ): Promise<RequeueOutcome[]> {
    const bodies = requests.map(({ retryInMs, reason, ...grant }) => {
      const later = withoutUndefined({ retryInMs, reason });
      return { ...this.#grant(grant), ...later } satisfies wire.ReturnRequest;
    });
    return this.#send<RequeueOutcome>("/api/tasks/return", bodies, options);
  }

  cancel(tasks: readonly TaskKey[]): Promise<AdminOutcome[]> {
    return this.#admin("/api/tasks/cancel", tasks);
  }

  retry(tasks: readonly TaskKey[]): Promise<AdminOutcome[]> {
    return this.#admin("/api/tasks/retry", tasks);
  }

  delete(tasks: readonly TaskKey[]): Promise<AdminOutcome[]> {
    return this.#admin("/api/tasks/delete", tasks);
  }

  async get({ namespace, id }: TaskKey): Promise<TaskDetails | null> {
    this.#client.checkNamespace(namespace);
    if (!isTaskId(id)) return null;
    const { status, body } = await this.#client.read(`/api/tasks/${taskInPath(id)}`);
    return status === 404 ? null : fromWireDetails(body as wire.TaskDetails);
  }

  async list({ namespace, ids, states, limit, ...filters }: TaskQuery): Promise<Page<TaskView>> {
    this.#client.checkNamespace(namespace);
    // A query cannot express an empty list.
    if (ids?.length === 0 || states?.length === 0) return { items: [], nextCursor: null };
    const query = queryOf({
      ...filters,
      id: ids,
      state: states,
      limit: limit === undefined ? undefined : Math.min(limit, BOUNDS.page),
    });
    const { body } = await this.#client.read(`/api/tasks${query}`);
    const { items, nextCursor } = body as wire.TaskPage;
    return { items: items.map(fromWireTask), nextCursor };
  }

  async leases({ namespace, states, limit, ...filters }: TaskLeaseQuery): Promise<Page<LeaseView>> {
    this.#client.checkNamespace(namespace);
    if (states?.length === 0) return { items: [], nextCursor: null };
    const query = queryOf({
      ...filters,
      state: states,
      limit: limit === undefined ? undefined : Math.min(limit, BOUNDS.page),
    });
    const { body } = await this.#client.read(`/api/tasks/leases${query}`);
    const { items, nextCursor } = body as wire.LeasePage;
    return { items: items.map((view) => ({ namespace, ...view })), nextCursor };
  }

  async counts(namespace: string): Promise<Record<TaskState, number>> {
    this.#client.checkNamespace(namespace);
    return (await this.#client.read("/api/tasks/counts")).body as wire.Counts;
  }

  async results(
    tasks: readonly TaskKey[],
    { notifyMs = 0, timeoutMs }: ReadResultsOptions = {},
  ): Promise<readonly TaskResult[]> {
    const results: TaskResult[] = tasks.map(({ id }) => ({ id, state: "unknown" }));
    const known = tasks.flatMap(({ namespace, id }, index) => {
      this.#client.checkNamespace(namespace);
      return isTaskId(id) ? { index, id } : [];
    });
    for (let at = 0; at < known.length; at += BOUNDS.page) {
      const asked = known.slice(at, at + BOUNDS.page);
      const body: wire.ResultsRequest = { ids: asked.map(({ id }) => id), notifyMs };
      const answer = await this.#client.send({
        method: "POST",
        path: "/v1/tasks/results",
        body: JSON.stringify(body),
        budgetMs: timeoutMs,
      });
      if (isFailed(answer)) throw answer.error;
      for (const [{ index }, result] of zip(asked, answer.body as wire.TaskResults)) {
        results[index] = { id: tasks[index]?.id ?? "", ...result };
      }
    }
    return results;
  }

  async *watchResults(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<TaskEndEvent, void, void> {
    for await (const event of followEvents(this.#client, { of: "results", namespace, signal })) {
      if (event.type === "resync" || event.type === "ended") yield event;
    }
  }

  async blockedKeys({ namespace, only, limit }: BlockedKeysQuery): Promise<readonly BlockedKey[]> {
    this.#client.checkNamespace(namespace);
    const parameters = queryOf({ ...only, limit });
    return ((await this.#client.read(`/v1/tasks/keys${parameters}`)).body as wire.BlockedKeys)
      .items;
  }

  async stats({ namespace, ...query }: TaskStatsQuery): Promise<TaskStatistics> {
    this.#client.checkNamespace(namespace);
    const { queues, kinds, versions, unfinishedOnly, limit } = query;
    // A query cannot express an empty list.
    if (queues?.length === 0 || kinds?.length === 0) return { items: [], complete: true };
    const version =
      kinds && versions && kinds.map((kind) => versionTaken({ kinds, versions }, kind));
    const parameters = queryOf({ queue: queues, kind: kinds, version, unfinishedOnly, limit });
    return (await this.#client.read(`/v1/tasks/stats${parameters}`)).body as wire.TaskStatistics;
  }

  /** Does nothing: the server reaps tasks. */
  async reap(): Promise<readonly Reaped[]> {
    this.#client.checkOpen();
    return [];
  }

  /** Does nothing: the server collects tasks. */
  async collect(): Promise<number> {
    this.#client.checkOpen();
    return 0;
  }

  async *watch(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<TaskWatchEvent, void, void> {
    for await (const event of followEvents(this.#client, { of: "tasks", namespace, signal })) {
      if (event.type === "resync") yield event;
      if (event.type === "task") yield { type: "ready", queue: event.queue };
    }
  }

  async close(): Promise<void> {
    this.#client.close();
  }

  #grant({ namespace, id, leaseId, token }: TaskGrant) {
    this.#client.checkNamespace(namespace);
    return { id, leaseId, fencingToken: token };
  }

  #send<Outcome>(
    path: string,
    requests: readonly object[],
    options: CallOptions = {},
  ): Promise<(Outcome | Failed)[]> {
    const maxBytes = BOUNDS.payloadBodyBytes;
    return sendBatch(this.#client, { ...options, path, requests, maxBytes });
  }

  async #admin(path: string, tasks: readonly TaskKey[]): Promise<AdminOutcome[]> {
    const requests = tasks.map(({ namespace, id }) => {
      this.#client.checkNamespace(namespace);
      return id;
    });
    const maxBytes = BOUNDS.payloadBodyBytes;
    return sendBatch(this.#client, { path, requests, maxBytes });
  }
}
