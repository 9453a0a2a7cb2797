/** What the routes share: the ports, batchers over them, and cached reads. */
import type { Env, LeaseStore, LeaseView } from "leasehold";
import type {
  Control,
  GrantHistory,
  NewTask,
  OnceStore,
  ScheduleStore,
  TaskListener,
  TaskState,
  TaskStore,
} from "leasehold/internal";
import { Batcher, type Capabilities, randomHex, taskIds } from "leasehold/internal";
import type { GeneratorState } from "../generator/state.js";
import type { Authenticator } from "./auth/authenticate.js";
import { callerOf, checkResources } from "./auth/caller.js";
import { CachedRead } from "./console/cached-read.js";
import { Contention } from "./console/contention.js";
import { Terms } from "./console/elections.js";
import type { Latencies } from "./console/latency.js";
import { type Queued, type QueueKey, queuedIn } from "./console/queued.js";
import { statisticsOf, type TenantStatistics } from "./console/statistics.js";
import type { UnhandledKinds } from "./console/unhandled.js";
import type { Activities } from "./events/activity.js";
import {
  type LeaseCalls,
  type LeaseCallsOptions,
  type Named,
  newLeaseCalls,
} from "./lease-calls.js";
import { type ServerLimits, servedTtl } from "./limits/limits.js";
import type { LeaseOperation, Tenants } from "./limits/tenants.js";
import type { Pauses } from "./operations/pauses.js";
import { LeaseCounts } from "./quotas/lease-counts.js";
import type { LeaseWaiter, LeaseWaiters } from "./quotas/lease-waiters.js";
import { limitedTicks } from "./quotas/limited-ticks.js";
import { type Quota, Quotas, type Read } from "./quotas/quotas.js";
import type { TenantsLimits } from "./quotas/tenants-limits.js";
import { Ttls } from "./quotas/ttls.js";
import { Budget, type RequestScope } from "./request.js";

export interface Services {
  readonly env: Env;
  readonly leases: LeaseStore;
  readonly tasks: TaskStore;
  /** The records of `once`, beside the leases; undefined: none are kept. */
  readonly once: OnceStore | undefined;
  /** The schedules of the tasks; undefined: none are kept. */
  readonly schedules: ScheduleStore | undefined;
  readonly generator: GeneratorState;
  /** Replaced grants, including those that this instance has not written yet; undefined: not kept. */
  readonly history: Pick<GrantHistory, "list" | "find"> | undefined;
  readonly tenants: Tenants;
  readonly authenticator: Pick<Authenticator, "checkAgain" | "isStillValid" | "watch" | "forget">;
  /** Keys, limits, pauses and the audit; undefined: none. */
  readonly control: Control | undefined;
  readonly pauses: Pick<Pauses, "covers" | "refresh" | "hasRoom">;
  /** The longest lifetime of new keys. */
  readonly keyMaxLifeMs: number | undefined;
  readonly contention: Contention;
  /** Activity of this instance, by tenant. */
  readonly activities: Activities;
  readonly latencies: Latencies;
  /** Kinds of tasks that no live worker handles. */
  readonly unhandled: Pick<UnhandledKinds, "of">;
  /** Reads of a whole tenant or queue, shared by all callers that ask for it. */
  readonly statistics: CachedRead<TenantStatistics>;
  readonly counts: CachedRead<Record<TaskState, number>>;
  readonly queued: CachedRead<Queued, QueueKey>;
  readonly terms: Terms;
  /** The public name of this instance, and its start by the monotonic clock. */
  readonly instance: { readonly id: string; readonly sinceMs: number };
  /** Receives task events of operator actions, which do not go through the observed task store. */
  readonly onTaskEvent: TaskListener | undefined;
  readonly limits: ServerLimits;
  readonly tenantsLimits: TenantsLimits;
  /** The TTLs that this server accepts. */
  readonly ttl: { readonly leases: Capabilities["ttl"]; readonly tasks: Capabilities["ttl"] };
  /**
   * Reserves part of the tenant's quota for leases on these resources, or for tasks with these ids (null: a
   * new one). A route calls it before it creates them; the acquire call returns the reservations of leases
   * that are not granted. At the limit, those that are there already are served: a repeated request gets
   * its grant or task, and an acquire of a held resource its holder. Also reserves room for their records.
   * @throws LIMIT_REACHED
   */
  reserveQuota(scope: RequestScope, quota: Quota, named: readonly (string | null)[]): Promise<void>;
  /**
   * Checks that an acquire of the resource has quota, and reserves none.
   * @throws LIMIT_REACHED, FORBIDDEN
   */
  checkQuota(scope: RequestScope, resource: string): Promise<void>;
  /** As {@link Services.reserveQuota}, but false where that throws LIMIT_REACHED. */
  tryReserve(scope: RequestScope, quota: Quota, more: number): Promise<boolean>;
  /**
   * Reserves what remains of the quota, at most `wanted`, and returns how much.
   * @throws LIMIT_REACHED if none remains, unless none is wanted
   */
  reserveUpTo(scope: RequestScope, quota: Quota, wanted: number): Promise<number>;
  /** Returns a reservation that was not used, but not the room for its records. */
  returnQuota(scope: RequestScope, quota: Quota, unused: number): void;
  /** Returns what {@link Services.reserveQuota} has reserved for tasks that were not added. */
  returnTasks(scope: RequestScope, unused: number): void;
  /** The schedules to tick, within the limits of their tenants. */
  readonly ticks: ReturnType<typeof limitedTicks>;
  /** Draws ids for tasks without one. The ids of one request are in its order. */
  readonly newTaskId: () => string;
  readonly batchedTasks: BatchedTasks;
  budget(scope: RequestScope): Budget;
  /**
   * Runs a read of a page, or of one thing that may be as large, when its tenant has a slot for it. The caller writes the
   * answer in the same turn.
   * @param items how many it may return
   * @throws as {@link Budget.read}
   */
  page<T>(scope: RequestScope, items: number, read: () => Promise<T>): Promise<T>;
  /**
   * Runs a read whose cost grows with what the tenant has stored, when its tenant has a slot for it.
   * @throws TOO_MANY_REQUESTS, and as {@link Budget.read}
   */
  scan<T>(scope: RequestScope, read: () => Promise<T>): Promise<T>;
  /** The same for a change. Throws as {@link Budget.change}. */
  scanAndChange<T>(scope: RequestScope, change: () => Promise<T>): Promise<T>;
  /**
   * Returns the calls that change the named leases. It reads the request's budget once, so call it
   * right before the first change.
   * @throws BUDGET_SPENT, FORBIDDEN
   */
  leaseCalls(scope: RequestScope, named: readonly Named[]): LeaseCalls;
  /**
   * Checks which TTLs the requests for leases have, and how many of them would wait.
   * @throws TOO_MANY_REQUESTS, LIMIT_REACHED
   */
  checkLeases(
    scope: RequestScope,
    requests: readonly (LeaseWaiter & { readonly ttlMs: number })[],
  ): void;
  /** Runs an operation on so many leases when its tenant has slots for them in the store. Infinity: it is alone. */
  inStore<T>(
    scope: RequestScope,
    operation: LeaseOperation,
    leases: number,
    call: () => Promise<T>,
  ): Promise<T>;
}

export type BatchedTasks = ReturnType<typeof batchTasks>;

export function batchTasks(store: TaskStore, { clock, telemetry }: Env) {
  const plain = new Batcher(store.enqueue.bind(store), clock, telemetry);
  // An open transaction on a dedupeKey delays tasks that have one, and no others.
  const deduped = new Batcher(store.enqueue.bind(store), clock, telemetry);
  return {
    /** Uses one lane per request, so that its tasks keep their order. */
    enqueue: (tasks: readonly NewTask[], timeoutMs: number) => {
      const lane = tasks.every(({ dedupeKey }) => dedupeKey === null) ? plain : deduped;
      return lane.submitAll(tasks, timeoutMs);
    },
    heartbeat: new Batcher(store.heartbeat.bind(store), clock, telemetry),
    complete: new Batcher(store.complete.bind(store), clock, telemetry),
    fail: new Batcher(store.fail.bind(store), clock, telemetry),
    requeue: new Batcher(store.requeue.bind(store), clock, telemetry),
  };
}

type Ports = Pick<
  Services,
  | "env"
  | "leases"
  | "tasks"
  | "once"
  | "schedules"
  | "generator"
  | "history"
  | "tenants"
  | "limits"
  | "tenantsLimits"
  | "authenticator"
  | "control"
  | "pauses"
  | "keyMaxLifeMs"
  | "activities"
  | "latencies"
  | "unhandled"
  | "onTaskEvent"
> & { readonly leaseWaiters: LeaseWaiters };

export function newServices(
  ports: Ports,
  listeners: Pick<LeaseCallsOptions, "onLeaseEvent" | "onReplaced">,
): Services {
  const { env, tasks } = ports;
  const budget = (scope: RequestScope) => new Budget(scope, env.clock);
  const { leases, leaseWaiters, limits, tenantsLimits } = ports;
  const quotas = new Quotas(env, ports, limits, tenantsLimits);
  const ttls = new Ttls(env.clock);
  const contention = new Contention(env.clock);
  const { onReplaced: onEvery } = listeners;
  const onReplaced =
    onEvery &&
    ((grant: LeaseView) => {
      if (quotas.takeHistory(grant.namespace)) onEvery(grant);
    });
  const counts = new LeaseCounts(quotas);
  const noted = { ...listeners, counts, contention, onReplaced };
  const callsOf = newLeaseCalls({ ...ports, ...noted });
  const readingOf = (scope: RequestScope): Read => {
    const reading = budget(scope);
    return (call) => reading.read(call);
  };
  const giveBackTasks = (namespace: string, unused: number) =>
    quotas.note("tasks", namespace, { live: -unused, records: -unused });
  const tenantOf = (scope: RequestScope) => ports.tenants.of(callerOf(scope).namespace);
  const begunScan = <T>(scope: RequestScope, scan: () => Promise<T>) => {
    const wait = () => tenantOf(scope).scan(budget(scope).storeMs(), scan);
    // Without slots, it counts as any demand.
    const scanning = limits.tenantScans === null ? undefined : scope.get("scanning");
    return scanning?.(wait) ?? wait();
  };
  const services: Services = {
    ...ports,
    contention,
    statistics: new CachedRead(env.clock, (namespace) => statisticsOf(leases, namespace)),
    counts: new CachedRead(env.clock, (namespace) => tasks.counts(namespace)),
    queued: new CachedRead(env.clock, (queue) => queuedIn(tasks, queue)),
    terms: new Terms(env.clock, ports.history),
    instance: { id: randomHex(env.random, 8), sinceMs: env.clock.monotonic() },
    newTaskId: taskIds(env.clock, env.random),
    batchedTasks: batchTasks(tasks, env),
    budget,
    async page(scope, items, read) {
      await scope.get("begin")(items);
      return tenantOf(scope).page(() => budget(scope).read(read));
    },
    async scan(scope, read) {
      const { answer } = await begunScan(scope, read);
      return budget(scope).read(() => answer);
    },
    async scanAndChange(scope, change) {
      // Its slot is free when the change has ended, which may be after its caller's time.
      let answer: ReturnType<typeof change> | undefined;
      const { answer: settled } = await begunScan(scope, () => {
        let changed: ReturnType<typeof change> | undefined;
        answer = budget(scope).change(() => {
          changed = change();
          return changed;
        });
        return changed ?? answer;
      });
      return answer ?? settled;
    },
    ttl: {
      leases: servedTtl(leases.capabilities.ttl, limits),
      tasks: servedTtl(tasks.capabilities.ttl, limits),
    },
    ticks: limitedTicks(ports.schedules, {
      async reserve(namespace, ids) {
        return (await quotas.reserve(namespace, "tasks", ids, (read) => read())) === null;
      },
      giveBack: giveBackTasks,
      onTaskEvent: (event, namespace) => ports.onTaskEvent?.(event, namespace),
      logger: env.logger,
    }),
    async reserveQuota(scope, quota, named) {
      const caller = callerOf(scope);
      // At the limit, the answer tells whether a lease is live: only to those who may know.
      const names = named.filter((name) => name !== null);
      if (quota === "leases") checkResources(caller, names);
      const problem = await quotas.reserve(caller.namespace, quota, named, readingOf(scope));
      if (problem) throw problem;
    },
    async checkQuota(scope, resource) {
      await services.reserveQuota(scope, "leases", [resource]);
      quotas.note("leases", callerOf(scope).namespace, { live: -1, records: -1 });
    },
    tryReserve: (scope, quota, more) =>
      quotas.tryReserve(callerOf(scope).namespace, quota, more, readingOf(scope)),
    reserveUpTo: (scope, quota, wanted) =>
      quotas.reserveUpTo(callerOf(scope).namespace, quota, wanted, readingOf(scope)),
    returnQuota(scope, quota, unused) {
      if (unused > 0) quotas.note(quota, callerOf(scope).namespace, { live: -unused });
    },
    returnTasks: (scope, unused) => giveBackTasks(callerOf(scope).namespace, unused),
    leaseCalls: (scope, named) => callsOf(scope, budget(scope), named),
    checkLeases(scope, requests) {
      const { namespace, keyId } = callerOf(scope);
      if (keyId !== null) ttls.check(namespace, requests);
      leaseWaiters.check(namespace, requests);
    },
    inStore(scope, operation, leases, call) {
      // Without keys, callers cannot be distinguished.
      if (callerOf(scope).keyId === null) return call();
      return tenantOf(scope).inStore(operation, leases, call);
    },
  };
  return services;
}
