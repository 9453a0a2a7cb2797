/** The long-running requests of a tenant: waiting claims and event streams. */
import type { Env, LeaseStore } from "leasehold";
import {
  type ClaimOptions,
  type ClaimOutcome,
  type ClaimRequest,
  Ready,
  type ReadyOptions,
  type TaskStore,
} from "leasehold/internal";
import type { EventTopic } from "leasehold/internal/wire";
import type { Activities, Followers, TenantActivity } from "../events/activity.js";
import type { Listener } from "../events/event-stream.js";
import { EventHub } from "../events/events.js";
import type { Pauses } from "../operations/pauses.js";
import { tooMany } from "../problems.js";

interface Shared {
  readonly env: Env;
  readonly leases: LeaseStore;
  readonly tasks: TaskStore;
  readonly pauses: Pick<Pauses, "openQueues">;
  readonly activities: Activities;
  /** Maximum number of waiting claims and event streams of one tenant. */
  readonly mostWaiters: number;
}

export class Tenant {
  readonly #ready: Ready;
  readonly #events: EventHub;
  readonly #mostWaiters: number;
  readonly #activity: () => TenantActivity;
  #claims = 0;

  constructor(namespace: string, shared: Shared) {
    const { env, leases, tasks, pauses, activities, mostWaiters } = shared;
    const claims = {
      capabilities: tasks.capabilities,
      async claim(request: ClaimRequest, options?: ClaimOptions): Promise<ClaimOutcome> {
        const queues = await pauses.openQueues(namespace, request.queues);
        return tasks.claim({ ...request, queues }, options);
      },
      requeue: tasks.requeue.bind(tasks),
      watch: tasks.watch.bind(tasks),
    };
    this.#ready = new Ready(claims, namespace, env);
    this.#events = new EventHub({ env, namespace, leases, tasks });
    this.#mostWaiters = mostWaiters;
    // Read each time: the activity of an unused tenant may have been dropped.
    this.#activity = () => activities.of(namespace);
  }

  /** @throws LIMIT_REACHED */
  async claim(request: ClaimRequest, options: ReadyOptions): Promise<ClaimOutcome> {
    this.#checkWaiters();
    this.#claims += 1;
    const claimed = this.#activity().recent.claiming(request);
    try {
      return await this.#ready.claim(request, options);
    } finally {
      claimed();
      this.#claims -= 1;
    }
  }

  /** @throws LIMIT_REACHED */
  stream(
    topics: readonly EventTopic[],
    lastEventId: string | undefined,
    listener: Listener,
  ): ReadableStream {
    this.#checkWaiters();
    return this.#events.stream(topics, lastEventId, listener);
  }

  /** @throws LIMIT_REACHED */
  activity(followers: Followers): ReadableStream {
    this.#checkWaiters();
    return this.#activity().stream(followers);
  }

  /** Ends the waits and the notification streams. */
  async close(): Promise<void> {
    await Promise.all([this.#ready.close(), this.#events.close()]);
  }

  #checkWaiters(): void {
    const streams = this.#events.streams + this.#activity().streams;
    if (this.#claims + streams < this.#mostWaiters) return;
    const detail = `a tenant may have at most ${this.#mostWaiters} waiting claims and event streams`;
    throw tooMany("LIMIT_REACHED", detail, 1_000);
  }
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
