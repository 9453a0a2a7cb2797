/** The fixture of each test: a store, a namespace of its own, and control of time. */

import { newLeaseId, sleep, systemClock, systemRandom, taskIds } from "../../env/index.js";
import type { LeaseView, Page } from "../../lease/index.js";
import type {
  AdminOutcome,
  ClaimedTask,
  ClaimRequest,
  CompleteOutcome,
  CompleteRequest,
  EnqueueOutcome,
  FailOutcome,
  FailRequest,
  HeartbeatOutcome,
  HeartbeatRequest,
  Json,
  NewTask,
  Reaped,
  RefusalReason,
  RequeueOutcome,
  RequeueRequest,
  TaskDetails,
  TaskGrant,
  TaskKey,
  TaskLeaseQuery,
  TaskStore,
  TaskWatchEvent,
} from "../../tasks/port.js";
import { only, settled } from "../calls.js";
import type { Expect } from "../framework.js";
import type * as suite from "../suite.js";
import { inTime, until, Watching } from "../waiting.js";
import { newTaskOf, type TaskChange } from "./new-task.js";

export const newTaskId = taskIds(systemClock, systemRandom);

/** A store under test, and the faults that its engine lets a test cause. */
export interface OpenedTaskStore {
  readonly store: TaskStore;
  /** Moves the store's clock. Without it the suite waits in real time. */
  advance?(ms: number): Promise<void>;
  /** Locks the task's row in a separate transaction until the returned function is called. */
  lockRow?(task: TaskKey): Promise<() => Promise<void>>;
  /** Ends everything that `open` began; the store itself may be closed already. */
  close(): Promise<void>;
}

export type Need = suite.Need<Fixture>;
export type Section = suite.Section<Fixture>;

export const needsReap: Need = ({ store }) =>
  store.capabilities.reaps ? "a server behind this store reaps already" : null;
export const needsPush: Need = ({ store }) =>
  store.capabilities.watch === "push" ? null : "the store's watch polls";
export const needsLockRow: Need = ({ opened }) =>
  opened.lockRow ? null : "the store has no rows that another transaction can lock";

/** A task that the test has claimed. */
export type Held = ClaimedTask & TaskGrant & { readonly holder: string };

/** Longer than any test. */
export const LONG_TTL_MS = 10 * 60_000;
/** Expires soon. */
const SHORT_TTL_MS = 150;

export class Fixture {
  /** New for each test, because all tests share the store. */
  readonly namespace = `suite-${newLeaseId(systemRandom)}`;
  readonly shortTtlMs: number;
  readonly #expect: Expect;

  constructor(
    readonly opened: OpenedTaskStore,
    expect: Expect,
  ) {
    this.#expect = expect;
    this.shortTtlMs = Math.max(SHORT_TTL_MS, this.store.capabilities.ttl.minMs);
  }

  get store(): TaskStore {
    return this.opened.store;
  }

  key(id: string): TaskKey {
    return { namespace: this.namespace, id };
  }

  newTask(change: TaskChange = {}): NewTask {
    return newTaskOf(this.key(newTaskId()), change);
  }

  /** Adds a task without conflicts, and returns its key. */
  async add(change: TaskChange = {}): Promise<TaskKey> {
    const task = this.newTask(change);
    this.#expect(await this.enqueue([task])).toEqual([{ status: "enqueued", id: task.id }]);
    return this.key(task.id);
  }

  /** Adds tasks by one call, with ids that sort in this order. */
  async addAll(changes: readonly TaskChange[]): Promise<string[]> {
    const ids = changes.map(newTaskId);
    const tasks = changes.map((change, index) => this.newTask({ id: ids[index] ?? "", ...change }));
    await this.enqueue(tasks);
    return ids;
  }

  claimRequest(change: Partial<ClaimRequest> = {}): ClaimRequest {
    const { claimId = newLeaseId(systemRandom) } = change;
    return {
      namespace: this.namespace,
      claimId,
      holder: `holder of ${claimId}`,
      queues: ["queue"],
      kinds: null,
      limit: 100,
      ttlMs: LONG_TTL_MS,
      ...change,
    };
  }

  async claim(change: Partial<ClaimRequest> = {}): Promise<Held[]> {
    const request = this.claimRequest(change);
    const [outcome] = await settled(async () => [await this.store.claim(request)], [request]);
    const { namespace, holder } = request;
    return (outcome?.tasks ?? []).map((task) => ({ ...task, namespace, holder }));
  }

  /** Claims the only claimable task. */
  async hold(change: Partial<ClaimRequest> = {}): Promise<Held> {
    const held = await this.claim(change);
    this.#expect(held).toHaveLength(1);
    return only(held);
  }

  /** Adds a task and claims it. */
  async addAndHold(task: TaskChange = {}, claim: Partial<ClaimRequest> = {}): Promise<Held> {
    await this.add(task);
    return this.hold(claim);
  }

  enqueue(tasks: readonly NewTask[]): Promise<EnqueueOutcome[]> {
    return settled((batch, options) => this.store.enqueue(batch, options), tasks);
  }
  heartbeatAll(requests: readonly HeartbeatRequest[]): Promise<HeartbeatOutcome[]> {
    return settled((batch, options) => this.store.heartbeat(batch, options), requests);
  }
  completeAll(requests: readonly CompleteRequest[]): Promise<CompleteOutcome[]> {
    return settled((batch, options) => this.store.complete(batch, options), requests);
  }
  failAll(requests: readonly FailRequest[]): Promise<FailOutcome[]> {
    return settled((batch, options) => this.store.fail(batch, options), requests);
  }
  requeueAll(requests: readonly RequeueRequest[]): Promise<RequeueOutcome[]> {
    return settled((batch, options) => this.store.requeue(batch, options), requests);
  }
  cancelAll(tasks: readonly TaskKey[]): Promise<AdminOutcome[]> {
    return settled((batch) => this.store.cancel(batch), tasks);
  }
  retryAll(tasks: readonly TaskKey[]): Promise<AdminOutcome[]> {
    return settled((batch) => this.store.retry(batch), tasks);
  }
  deleteAll(tasks: readonly TaskKey[]): Promise<AdminOutcome[]> {
    return settled((batch) => this.store.delete(batch), tasks);
  }

  async heartbeat(
    grant: TaskGrant,
    change: Partial<HeartbeatRequest> = {},
  ): Promise<HeartbeatOutcome> {
    return only(await this.heartbeatAll([{ ...grantOf(grant), ttlMs: LONG_TTL_MS, ...change }]));
  }
  async complete(grant: TaskGrant, output: Json = null): Promise<CompleteOutcome> {
    return only(await this.completeAll([{ ...grantOf(grant), output }]));
  }
  async fail(grant: TaskGrant, change: Partial<FailRequest> = {}): Promise<FailOutcome> {
    const request = { ...grantOf(grant), error: "it failed", retryInMs: null, ...change };
    return only(await this.failAll([request]));
  }
  async requeue(
    grant: TaskGrant,
    later: Pick<RequeueRequest, "retryInMs" | "reason"> = {},
  ): Promise<RequeueOutcome> {
    return only(await this.requeueAll([{ ...grantOf(grant), ...later }]));
  }
  async cancel({ id }: { id: string }): Promise<AdminOutcome> {
    return only(await this.cancelAll([this.key(id)]));
  }
  async retry({ id }: { id: string }): Promise<AdminOutcome> {
    return only(await this.retryAll([this.key(id)]));
  }
  async delete({ id }: { id: string }): Promise<AdminOutcome> {
    return only(await this.deleteAll([this.key(id)]));
  }
  async view({ id }: { id: string }): Promise<TaskDetails> {
    const details = await this.store.get(this.key(id));
    if (!details) throw new Error(`no task ${id}`);
    return details;
  }

  /** Reads all grants of a query, page by page. */
  async leases(query: Omit<TaskLeaseQuery, "namespace" | "cursor"> = {}): Promise<LeaseView[]> {
    const found: LeaseView[] = [];
    for (let more: Pick<TaskLeaseQuery, "cursor"> | null = {}; more; ) {
      const { namespace } = this;
      const page: Page<LeaseView> = await this.store.leases({ namespace, ...query, ...more });
      found.push(...page.items);
      more = page.nextCursor === null ? null : { cursor: page.nextCursor };
    }
    return found;
  }

  /** The outcome of each operation that uses a grant. */
  async useAll(grant: TaskGrant): Promise<Record<string, unknown>> {
    return {
      heartbeat: await this.heartbeat(grant),
      complete: await this.complete(grant),
      fail: await this.fail(grant),
      requeue: await this.requeue(grant),
    };
  }

  /** Lets at least `ms` pass on the store's clock. */
  async pass(ms: number): Promise<void> {
    if (this.opened.advance) return this.opened.advance(ms);
    // Timers may fire a little early, and two clocks never run alike.
    await sleep(systemClock, ms * 1.02 + 20);
  }

  /** Adds a task, claims it and lets its lease expire. It is not reaped unless the store does that by itself. */
  async addAndExpire(task: TaskChange = {}): Promise<Held> {
    const held = await this.addAndHold(task, { ttlMs: this.shortTtlMs });
    await this.pass(held.ttlMs);
    return held;
  }

  /** Reaps until none of the tasks is running. Returns the reaped tasks of this namespace. */
  async reap(...tasks: readonly { id: string }[]): Promise<Reaped[]> {
    const reaped: Reaped[] = [];
    await this.until("expired tasks are reaped", async () => {
      reaped.push(...(await this.store.reap()));
      const views = await Promise.all(tasks.map((task) => this.view(task)));
      return views.every(({ state }) => state !== "running");
    });
    return reaped.filter(({ namespace }) => namespace === this.namespace);
  }

  /** Ends a task that has not begun in time, or waits until a server has. */
  untilExpired(task: { id: string }): Promise<void> {
    return this.until("a task that is late expires", async () => {
      await this.store.reap();
      return (await this.view(task)).state === "expired";
    });
  }

  inTime(body: (ttlMs: number) => Promise<boolean>): Promise<void> {
    const { maxMs } = this.store.capabilities.ttl;
    return inTime(this.#expect, { firstMs: 2 * this.shortTtlMs, maxMs }, body);
  }

  until(what: string, isTrue: () => boolean | Promise<boolean>): Promise<void> {
    return until(this.#expect, what, isTrue);
  }

  /** Watches a namespace; resolves when the subscription is established. */
  async watch(namespace = this.namespace): Promise<TaskWatching> {
    const watching = new TaskWatching(this.store, namespace);
    await this.until("the first event of watch", () => watching.events.length > 0);
    return watching;
  }
}

/** The events of a namespace, and the notifications of claimable tasks among them. */
class TaskWatching extends Watching<TaskWatchEvent> {
  constructor(store: TaskStore, namespace: string) {
    super((options) => store.watch(namespace, options));
  }

  /** The queues of the notifications, in order. */
  get ready(): string[] {
    return this.events.flatMap((event) => (isDue(event) ? event.queue : []));
  }
}

/** Whether it is about a task that is due, and not one that becomes due. */
export function isDue(
  event: TaskWatchEvent,
): event is Extract<TaskWatchEvent, { readonly type: "ready" }> {
  return event.type === "ready" && event.inMs === undefined;
}

/** The last digits of the number that the store gave the task, from the lease id. */
export function numberOf({ leaseId }: Pick<TaskGrant, "leaseId">): number {
  return Number.parseInt(leaseId.slice(8, 16), 16);
}

/** Only the fields that identify a grant, without the other fields of the claimed task. */
export function grantOf({ namespace, id, leaseId, token }: TaskGrant): TaskGrant {
  return { namespace, id, leaseId, token };
}

/** The outcomes of `useAll` when every operation is refused for the same reason. */
export function refusedAll(reason: RefusalReason): Record<string, unknown> {
  const refused = { status: "refused", reason };
  return { heartbeat: refused, complete: refused, fail: refused, requeue: refused };
}

/** The error of a rejected call; null if it resolves. */
export function thrownBy(call: Promise<unknown>): Promise<unknown> {
  return call.then(
    () => null,
    (error: unknown) => error,
  );
}
