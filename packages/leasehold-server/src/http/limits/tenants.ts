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
import { Counts } from "./counts.js";
import type { ServerLimits } from "./limits.js";

interface Shared {
  readonly env: Env;
  readonly leases: LeaseStore;
  readonly tasks: TaskStore;
  readonly pauses: Pick<Pauses, "openQueues">;
  readonly activities: Activities;
  readonly limits: Pick<ServerLimits, "waiters" | "streams">;
}

export class Tenant {
  readonly #ready: Ready;
  readonly #events: EventHub;
  readonly #limits: Shared["limits"];
  readonly #activity: () => TenantActivity;
  /** Claims that wait, by key. */
  readonly #claims = new Counts<string | null>();

  constructor(namespace: string, shared: Shared) {
    const { env, leases, tasks, pauses, activities, limits } = shared;
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
    checkRoom("waiting claims", waiters, this.#claims.total, keyId, this.#claims.of(keyId));
    this.#claims.add(keyId, 1);
    const claimed = this.#activity().recent.claiming(request);
    try {
      return await this.#ready.claim(request, options);
    } finally {
      claimed();
      this.#claims.add(keyId, -1);
    }
  }

  /** @throws LIMIT_REACHED */
  stream(
    topics: readonly EventTopic[],
    lastEventId: string | undefined,
    listener: Listener,
  ): ReadableStream {
    this.#checkStreams(listener);
    return this.#events.stream(topics, lastEventId, listener);
  }

  /** @throws LIMIT_REACHED */
  activity(followers: Followers): ReadableStream {
    this.#checkStreams(followers.listener);
    return this.#activity().stream(followers);
  }

  /** Ends the waits and the notification streams. */
  async close(): Promise<void> {
    await Promise.all([this.#ready.close(), this.#events.close()]);
  }

  #checkStreams({ keyId }: Listener): void {
    const counts = [this.#events.streams, this.#activity().streams];
    const sum = (of: (count: (typeof counts)[number]) => number) =>
      counts.reduce((total, count) => total + of(count), 0);
    checkRoom(
      "event streams",
      this.#limits.streams,
      sum(({ total }) => total),
      keyId,
      sum((count) => count.of(keyId)),
    );
  }
}

/**
 * Whether there is room for one more. One key may have half of what its tenant may have: a viewer, or a worker
 * that opens ever more, leaves the rest to other keys. Callers without a key cannot be distinguished.
 * @param own how many the caller's key has
 * @throws LIMIT_REACHED
 */
function checkRoom(
  what: string,
  most: number,
  total: number,
  keyId: string | null,
  own: number,
): void {
  const mostOfKey = Math.ceil(most / 2);
  if (keyId !== null && own >= mostOfKey) {
    const detail = `one key may have at most ${mostOfKey} ${what}, half of those of its tenant`;
    throw tooMany("LIMIT_REACHED", detail, 1_000);
  }
  if (total < most) return;
  throw tooMany("LIMIT_REACHED", `a tenant may have at most ${most} ${what}`, 1_000);
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
