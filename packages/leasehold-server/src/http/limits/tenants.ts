/** What a tenant occupies for long: waiting claims, waits for results, event streams, and scans. */
import { ClosedError, type Env, type LeaseStore, TimedOutError } from "leasehold";
import {
  type ClaimOptions,
  type ClaimOutcome,
  type ClaimRequest,
  Ready,
  type ReadyOptions,
  ResultWaits,
  type TaskResult,
  type TaskStore,
} from "leasehold/internal";
import type { EventTopic } from "leasehold/internal/wire";
import { Counts } from "../counts.js";
import type { Activities, Followers, TenantActivity } from "../events/activity.js";
import type { Listener } from "../events/event-stream.js";
import { EventHub } from "../events/events.js";
import type { Pauses } from "../operations/pauses.js";
import { type ProblemError, tooMany } from "../problems.js";
import { ClaimSlots } from "./claim-slots.js";
import type { ServerLimits } from "./limits.js";
import { PageTurns } from "./page-turns.js";
import { type Scan, ScanSlots } from "./scan-slots.js";

interface Shared {
  readonly env: Env;
  readonly leases: LeaseStore;
  readonly tasks: TaskStore;
  readonly pauses: Pick<Pauses, "openQueues">;
  readonly activities: Activities;
  readonly limits: Pick<ServerLimits, "waiters" | "streams" | "tenantScans">;
}

export class Tenant {
  readonly #ready: Ready;
  readonly #slots: ClaimSlots;
  readonly #scans: ScanSlots;
  readonly #pages = new PageTurns();
  readonly #events: EventHub;
  readonly #limits: Shared["limits"];
  readonly #activity: () => TenantActivity;
  readonly #results: ResultWaits;
  /** Claims that wait, by key. */
  readonly #claims = new Counts<string | null>();
  /** Waits for results, by key. */
  readonly #resultWaits = new Counts<string | null>();

  constructor(namespace: string, shared: Shared) {
    const { env, leases, tasks, pauses, activities, limits } = shared;
    const slots = new ClaimSlots(env.clock);
    this.#slots = slots;
    this.#scans = new ScanSlots(env.clock, limits.tenantScans ?? Infinity);
    const claims = {
      capabilities: tasks.capabilities,
      async claim(request: ClaimRequest, options: ClaimOptions = {}): Promise<ClaimOutcome> {
        const call = async (within: ClaimOptions) => {
          const queues = await pauses.openQueues(namespace, request.queues);
          return tasks.claim({ ...request, queues }, within);
        };
        // A claim that waits in the store would hold its slots meanwhile.
        if (tasks.capabilities.remoteWait) return call(options);
        return slots.run(request, options, (timeoutMs) => call({ ...options, timeoutMs }));
      },
      requeue: tasks.requeue.bind(tasks),
      watch: tasks.watch.bind(tasks),
    };
    this.#ready = new Ready(claims, namespace, env);
    this.#results = new ResultWaits(tasks, namespace, env);
    this.#events = new EventHub({ env, namespace, leases, tasks });
    this.#limits = limits;
    // Read each time: the activity of an unused tenant may have been dropped.
    this.#activity = () => activities.of(namespace);
  }

  /**
   * @param keyId of the caller; null: no key
   * @throws LIMIT_REACHED
   */
  async claim(
    request: ClaimRequest,
    options: ReadyOptions,
    keyId: string | null,
  ): Promise<ClaimOutcome> {
    const { waiters } = this.#limits;
    const count = { total: this.#claims.total, own: this.#claims.of(keyId) };
    const problem = limitProblem("waiting claims", waiters, count, keyId);
    if (problem) throw problem;
    this.#claims.add(keyId, 1);
    const claimed = this.#activity().recent.claiming(request);
    try {
      // A stuck worker only says so.
      if (request.abandoned !== undefined) return { status: "claimed", tasks: [] };
      return await this.#ready.claim(request, options);
    } finally {
      claimed();
      this.#claims.add(keyId, -1);
    }
  }

  /**
   * Waits for the result of a task: null if its time is over, the signal aborts or this instance is closing.
   * @param keyId of the caller; null: no key
   * @throws LIMIT_REACHED, STORE_UNAVAILABLE
   */
  async result(
    id: string,
    { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
    keyId: string | null,
  ): Promise<TaskResult | null> {
    const waits = this.#resultWaits;
    const count = { total: waits.total, own: waits.of(keyId) };
    const problem = limitProblem("waits for results", this.#limits.waiters, count, keyId);
    if (problem) throw problem;
    waits.add(keyId, 1);
    try {
      return await this.#results.of(id, { timeoutMs, signal });
    } catch (error) {
      if (signal.aborted || error instanceof ClosedError) return null;
      if (error instanceof TimedOutError && error.cause === undefined) return null;
      throw error instanceof TimedOutError ? error.cause : error;
    } finally {
      waits.add(keyId, -1);
    }
  }

  /** As {@link ScanSlots.begin}. */
  scan<T>(question: string | symbol, timeoutMs: number, scan: () => Promise<T>): Promise<Scan<T>> {
    return this.#scans.begin(question, timeoutMs, scan);
  }

  /** As {@link PageTurns.run}. */
  page<T>(read: () => Promise<T>): Promise<T> {
    return this.#pages.run(read);
  }

  /** @throws LIMIT_REACHED */
  stream(
    topics: readonly EventTopic[],
    lastEventId: string | undefined,
    listener: Listener,
  ): ReadableStream {
    return this.#events.stream(topics, lastEventId, this.#limited(listener));
  }

  /** @throws LIMIT_REACHED */
  activity(followers: Followers): ReadableStream {
    const listener = this.#limited(followers.listener);
    return this.#activity().stream({ ...followers, listener });
  }

  /** Ends the waits and the notification streams. */
  async close(): Promise<void> {
    this.#slots.close();
    this.#scans.close();
    await Promise.all([this.#ready.close(), this.#results.close(), this.#events.close()]);
  }

  /**
   * A listener whose streams end above the limit. A stream counts from its first read, because some are never
   * read; of many that are created at once, only as many begin as there is room for.
   * @throws LIMIT_REACHED
   */
  #limited(listener: Listener): Listener {
    const { keyId } = listener;
    const refusal = () => {
      const [events, activity] = [this.#events.streams, this.#activity().streams];
      const own = events.of(keyId) + activity.of(keyId);
      const total = events.total + activity.total;
      return limitProblem("event streams", this.#limits.streams, { total, own }, keyId);
    };
    const problem = refusal();
    if (problem) throw problem;
    return { ...listener, hasRoom: () => refusal() === null };
  }
}

/**
 * The problem of a caller for whom there is no room; null if there is. One key may have half of what its tenant
 * may have: a viewer, or a worker that opens ever more, leaves the rest to other keys. Callers without a key
 * cannot be distinguished.
 * @param count how many the tenant has, and how many of them its key
 */
function limitProblem(
  what: string,
  most: number,
  count: { readonly total: number; readonly own: number },
  keyId: string | null,
): ProblemError | null {
  const mostOfKey = Math.ceil(most / 2);
  if (keyId !== null && count.own >= mostOfKey) {
    const detail = `one key may have at most ${mostOfKey} ${what}, half of those of its tenant`;
    return tooMany("LIMIT_REACHED", detail, 1_000);
  }
  if (count.total < most) return null;
  return tooMany("LIMIT_REACHED", `a tenant may have at most ${most} ${what}`, 1_000);
}

/** Created on first use and kept: only tenants with keys exist, and an idle one costs nothing. */
export class Tenants {
  readonly #shared: Shared;
  readonly #tenants = new Map<string, Tenant>();

  constructor(shared: Shared) {
    this.#shared = shared;
  }

  of(namespace: string): Tenant {
    let tenant = this.#tenants.get(namespace);
    if (!tenant) {
      tenant = new Tenant(namespace, this.#shared);
      this.#tenants.set(namespace, tenant);
    }
    return tenant;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#tenants.values()].map((tenant) => tenant.close()));
  }
}
