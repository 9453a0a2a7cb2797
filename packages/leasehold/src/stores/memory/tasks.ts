/** Tasks in this process's memory: applies the rules to a map. */

import { claimDigestOf, type EventQueue } from "../../env/index.js";
import {
  ClosedError,
  type Failed,
  InvalidOptionError,
  type LeaseView,
  rules as leaseRules,
} from "../../lease/index.js";
import { refuseAnothersClaim } from "../../tasks/claims.js";
import { cancel, reap, retry } from "../../tasks/operator-rules.js";
import { byteLength, CLAIMED_BYTES, RepeatedOutputs, tooMuchOutput } from "../../tasks/payloads.js";
import type {
  AdminOutcome,
  BlockedKey,
  BlockedKeysQuery,
  ClaimedTask,
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
  Page,
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
import { NOTHING, storedTask, type TaskRecord } from "../../tasks/record.js";
import * as rules from "../../tasks/rules.js";
import { TaskIndex } from "./task-index.js";
import { isKeyed } from "./task-keys.js";
import { leasesOf } from "./task-leases.js";
import { memoryLimits, Permits } from "./task-limits.js";
import { type MemoryTaskState, type Namespace, notify, notifyPlace, remove } from "./task-state.js";
import { detailsOf, dueKindsOf, iso, listOf } from "./task-views.js";
import { resultsOf, statsOf } from "./task-waits.js";
import { follow } from "./watch.js";

/** A client repeats a claim within seconds, if at all. */
const CLAIMS_KEPT_MS = 600_000;

/** A rule, with the tasks of the namespace if it needs them. */
type Step<Request, Outcome> = (
  record: TaskRecord | null,
  request: Request,
  nowMs: number,
  tasks: TaskIndex,
) => rules.Decision<Outcome> | { readonly record: TaskRecord; readonly outcome: Failed };

export class MemoryTaskStore implements TaskStore {
  readonly capabilities: TaskCapabilities = {
    ttl: { minMs: 1, maxMs: 2 ** 31 - 1, stepMs: 1 },
    watch: "push",
    remoteWait: false,
    reaps: false,
  };
  readonly limits: TaskLimits;
  readonly #state: MemoryTaskState;
  readonly #watching = new Set<EventQueue<TaskWatchEvent>>();
  readonly #watchingEnds = new Set<EventQueue<TaskEndEvent>>();
  /** What claims have found late, for the next `reap`. */
  readonly #reaped: Reaped[] = [];
  #closed = false;

  constructor(state: MemoryTaskState) {
    this.#state = state;
    this.limits = memoryLimits(state, ({ watchers }) => {
      for (const watcher of watchers) watcher.push({ type: "resync" });
    });
  }

  async enqueue(
    added: readonly NewTask[],
    options: EnqueueOptions = {},
  ): Promise<EnqueueOutcome[]> {
    if (options.client) {
      throw new InvalidOptionError(
        "client",
        "needs tasks in the SQL database of the transaction: connect to PostgreSQL or PGlite itself",
      );
    }
    return this.#decide<NewTask, EnqueueOutcome>(
      added.map(storedTask),
      (record, task, nowMs, tasks) =>
        rules.enqueue(record, tasks.rival(task), task, nowMs, this.#state.nextSeq()),
    );
  }

  async claim(request: ClaimRequest): Promise<ClaimOutcome> {
    if (this.#closed) return closed();
    const { claimId, holder, queues, limit } = request;
    const namespace = this.#state.namespace(request.namespace);
    const { tasks, claims, tokenFloor } = namespace;
    const nowMs = this.#state.nowMs();
    const claimDigest = claimDigestOf(claimId);
    this.#reaped.push(...this.#reap(namespace, tasks.late(nowMs), nowMs));
    const earlier = claims.get(claimId);
    if (earlier) {
      const holders: string[] = [];
      const own = earlier.ids.flatMap((id) => {
        const record = tasks.get(id);
        const task = record && rules.claimAgain(record, claimDigest, nowMs);
        if (task && record.last) holders.push(record.last.holder);
        return task ?? [];
      });
      const refused = refuseAnothersClaim(holder, holders);
      if (refused) return refused;
      return { status: "claimed", tasks: own.map((task) => this.#withTerm(task)) };
    }
    const claimed: ClaimedTask[] = [];
    let bytes = 0;
    const permits = new Permits(namespace, nowMs);
    const allows = permits.areAny ? permits.allows : undefined;
    for (const due of tasks.due(queues, request, nowMs, allows)) {
      if (claimed.length >= limit) break;
      bytes += byteLength(due.data) + (due.checkpoint === NOTHING ? 0 : byteLength(due.checkpoint));
      if (bytes > CLAIMED_BYTES && claimed.length > 0) {
        notify(namespace, due, nowMs);
        break;
      }
      const token = (last: number) => leaseRules.nextToken(last, tokenFloor, 0);
      const { record, outcome } = rules.claim(due, request, claimDigest, nowMs, token);
      permits.take(record);
      if (isKeyed(due)) tasks.keys.started(due, nowMs);
      tasks.put(record);
      claimed.push(this.#withTerm(outcome));
    }
    if (claimed.length > 0) {
      claims.set(claimId, { ids: claimed.map(({ id }) => id), atMs: nowMs });
    }
    if (claimed.length > 0) return { status: "claimed", tasks: claimed };
    const nextMs = Math.min(permits.nextMs(request), tasks.keys.nextMs(request, nowMs));
    const retryInMs = Number.isFinite(nextMs) ? Math.ceil(nextMs - nowMs) : undefined;
    return { status: "claimed", tasks: [], ...(retryInMs !== undefined && { retryInMs }) };
  }

  async heartbeat(requests: readonly HeartbeatRequest[]): Promise<HeartbeatOutcome[]> {
    return this.#decide<HeartbeatRequest, HeartbeatOutcome>(requests, rules.heartbeat).map(
      (outcome) => (outcome.status === "renewed" ? this.#withTerm(outcome) : outcome),
    );
  }

  async complete(requests: readonly CompleteRequest[]): Promise<CompleteOutcome[]> {
    const repeated = new RepeatedOutputs();
    return this.#decide<CompleteRequest, CompleteOutcome>(requests, (record, request, nowMs) => {
      const decision = rules.complete(record, request, nowMs);
      const { outcome } = decision;
      if (outcome.status !== "completed" || !outcome.repeated || !record) return decision;
      return repeated.exceeds(request.namespace, byteLength(record.output))
        ? { record, outcome: tooMuchOutput() }
        : decision;
    });
  }

  async fail(requests: readonly FailRequest[]): Promise<FailOutcome[]> {
    return this.#decide<FailRequest, FailOutcome>(requests, (record, request, nowMs) =>
      rules.fail(record, request, nowMs, this.#state.random.float()),
    ).map((outcome) =>
      outcome.status === "recorded" && outcome.retryInMs !== null
        ? { ...outcome, retryInMs: Math.ceil(outcome.retryInMs) }
        : outcome,
    );
  }

  async requeue(requests: readonly RequeueRequest[]): Promise<RequeueOutcome[]> {
    return this.#decide<RequeueRequest, RequeueOutcome>(requests, rules.requeue);
  }

  async cancel(keys: readonly TaskKey[]): Promise<AdminOutcome[]> {
    return this.#decide<TaskKey, AdminOutcome>(keys, (record, _, nowMs) => cancel(record, nowMs));
  }

  async retry(keys: readonly TaskKey[]): Promise<AdminOutcome[]> {
    return this.#decide<TaskKey, AdminOutcome>(keys, (record, _, nowMs, tasks) =>
      retry(record, record && tasks.rival(record), nowMs),
    );
  }

  async delete(keys: readonly TaskKey[]): Promise<AdminOutcome[]> {
    if (this.#closed) return keys.map(closed);
    return keys.map(({ namespace, id }) => {
      const space = this.#state.namespace(namespace);
      const record = space.tasks.get(id);
      if (!record) return { status: "unknown" };
      const { state } = record;
      if (state === "running") return { status: "conflict", state };
      remove(space, record);
      return { status: "ok", state };
    });
  }

  async get({ namespace, id }: TaskKey): Promise<TaskDetails | null> {
    this.#assertOpen();
    const record = this.#state.namespaces.get(namespace)?.tasks.get(id);
    if (!record) return null;
    return detailsOf(record, this.#state.nowMs());
  }

  async list(query: TaskQuery): Promise<Page<TaskView>> {
    this.#assertOpen();
    const tasks = this.#state.namespaces.get(query.namespace)?.tasks ?? new TaskIndex();
    return listOf(tasks, query, this.#state.nowMs());
  }

  async leases(query: TaskLeaseQuery): Promise<Page<LeaseView>> {
    this.#assertOpen();
    const tasks = this.#state.namespace(query.namespace).tasks;
    return leasesOf(tasks, query, this.#state.nowMs());
  }

  async counts(namespace: string): Promise<Record<TaskState, number>> {
    this.#assertOpen();
    return { ...this.#state.namespace(namespace).tasks.counts };
  }

  async dueKinds(query: DueKindsQuery): Promise<readonly DueKind[]> {
    this.#assertOpen();
    return dueKindsOf(this.#state.namespace(query.namespace).tasks, query, this.#state.nowMs());
  }

  async blockedKeys(query: BlockedKeysQuery): Promise<readonly BlockedKey[]> {
    this.#assertOpen();
    return this.#state.namespace(query.namespace).tasks.keys.blocked(query, this.#state.nowMs());
  }

  async results(keys: readonly TaskKey[]): Promise<readonly TaskResult[]> {
    this.#assertOpen();
    const tasksOf = (namespace: string) => this.#state.namespaces.get(namespace)?.tasks;
    return resultsOf(keys, ({ namespace, id }) => tasksOf(namespace)?.get(id) ?? null);
  }

  async *watchResults(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<TaskEndEvent, void, void> {
    this.#assertOpen();
    const { endWatchers } = this.#state.namespace(namespace);
    yield* follow(signal, [endWatchers, this.#watchingEnds]);
  }

  async stats(query: TaskStatsQuery): Promise<TaskStatistics> {
    this.#assertOpen();
    return statsOf(this.#state.namespace(query.namespace).tasks, query, this.#state.nowMs());
  }

  async reap(): Promise<readonly Reaped[]> {
    this.#assertOpen();
    const nowMs = this.#state.nowMs();
    const reaped = this.#reaped.splice(0);
    for (const namespace of this.#state.namespaces.values()) {
      const { tasks } = namespace;
      reaped.push(...this.#reap(namespace, [...tasks.running(), ...tasks.late(nowMs)], nowMs));
      namespace.tasks.keys.forgetWindows(nowMs);
      for (const [claimId, { atMs }] of namespace.claims) {
        if (atMs > nowMs - CLAIMS_KEPT_MS) break;
        namespace.claims.delete(claimId);
      }
    }
    return reaped;
  }

  async collect(limit: number): Promise<number> {
    this.#assertOpen();
    const nowMs = this.#state.nowMs();
    let deleted = 0;
    for (const namespace of this.#state.namespaces.values()) {
      for (const record of namespace.tasks.deletable(nowMs, limit - deleted)) {
        remove(namespace, record);
        deleted += 1;
      }
    }
    return deleted;
  }

  async *watch(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<TaskWatchEvent, void, void> {
    this.#assertOpen();
    const { watchers } = this.#state.namespace(namespace);
    yield* follow(signal, [watchers, this.#watching]);
  }

  /** Ends this store's watchers; the tasks stay for other stores of the same name. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const watcher of this.#watching) watcher.end();
    for (const watcher of this.#watchingEnds) watcher.end();
  }

  #reap(namespace: Namespace, records: readonly TaskRecord[], nowMs: number): Reaped[] {
    return records.flatMap((record) => {
      const decision = reap(record, nowMs);
      if (!decision) return [];
      namespace.tasks.put(decision.record);
      notify(namespace, decision.record, nowMs);
      notifyPlace(namespace, decision.record);
      return decision.outcome;
    });
  }

  /** Decides the requests of one call in order, all at the same instant. */
  #decide<Request extends TaskKey, Outcome>(
    requests: readonly Request[],
    step: Step<Request, Outcome>,
  ): (rules.Decision<Outcome>["outcome"] | Failed)[] {
    if (this.#closed) return requests.map(closed);
    const nowMs = this.#state.nowMs();
    return requests.map((request) => {
      const namespace = this.#state.namespace(request.namespace);
      const before = namespace.tasks.get(request.id);
      const { record, outcome } = step(before, request, nowMs, namespace.tasks);
      if (record && record !== before) {
        namespace.tasks.put(record);
        notify(namespace, record, nowMs);
        if (before?.state === "running") notifyPlace(namespace, record);
      }
      return outcome;
    });
  }

  /** Rounds down to whole milliseconds, so that the holder stops early rather than late. */
  #withTerm<Outcome extends { remainingMs: number }>(
    outcome: Outcome,
  ): Outcome & { expiresAt: string } {
    const expiresAt = iso(this.#state.nowMs() + outcome.remainingMs);
    return { ...outcome, remainingMs: Math.floor(outcome.remainingMs), expiresAt };
  }

  #assertOpen(): void {
    if (this.#closed) throw new ClosedError(WHAT);
  }
}

const WHAT = "the store";

function closed(): Failed {
  return { status: "failed", applied: "no", retryable: false, error: new ClosedError(WHAT) };
}
