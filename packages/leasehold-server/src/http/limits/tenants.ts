/**
 * What a tenant occupies for longer than a request, or beside its requests:
 *
 *   waits      claims and waits for results                          `waiters` together
 *   streams    events and activity                                   `streams` together
 *   slots      pages, from the store to the text of the answer       4
 *              scans: reads whose cost grows with what is stored     `tenantScans`, and as much rest
 *              claims in the store, by what they examine             8
 *              leases in the lanes of the store, for each operation  256
 *
 * Without the slots of pages, the store may answer many in one turn of the event loop, and the renewals of others, which need
 * several turns, would wait for all of their texts in each of those. Without those of leases, the renewals of others would
 * wait in the store's lanes for all that one tenant sends: on etcd, 16 connections that renewed 800 leases each cost another
 * tenant all of its leases.
 */
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
import type { Activities, Followers, TenantActivity } from "../events/activity.js";
import type { Listener } from "../events/event-stream.js";
import { EventHub } from "../events/events.js";
import type { Pauses } from "../operations/pauses.js";
import { type ProblemError, tooMany } from "../problems.js";
import type { ServerLimits } from "./limits.js";
import { type Begun, Slots } from "./slots.js";

const PAGES = 4;
/**
 * A claim of one queue has one, and twice as many with kinds: it may then read every due task of its queue. A claim of
 * many queues is a large statement.
 */
const CLAIMS = 8;
const KINDS_RATIO = 2;
/** Enough for the store to be busy with those of one tenant: it takes half of them in one call. */
const LEASES_IN_STORE = 256;
const MOST_SCANS_WAITING = 32;
const LONGEST_SCAN_WAIT_MS = 5_000;
const LONGEST_CLAIM_WAIT_MS = 10_000;
/** The least time for a claim in the store, however long it has waited for its slots. */
const SHORTEST_CLAIM_MS = 250;
const RETRY_MS = 1_000;

const NOTHING: ClaimOutcome = { status: "claimed", tasks: [] };

interface Shared {
  readonly env: Env;
  readonly leases: LeaseStore;
  readonly tasks: TaskStore;
  readonly pauses: Pick<Pauses, "openQueues">;
  readonly activities: Activities;
  readonly limits: Pick<ServerLimits, "waiters" | "streams" | "tenantScans">;
}

export interface Used {
  readonly waits: number;
  readonly streams: number;
  readonly slots: number;
}

export type LeaseOperation = "acquire" | "renew" | "release";

export class Tenant {
  readonly #ready: Ready;
  readonly #claimSlots: Slots;
  readonly #scans: Slots;
  readonly #pages: Slots;
  readonly #inStore: Readonly<Record<LeaseOperation, Slots>>;
  readonly #events: EventHub;
  readonly #limits: Shared["limits"];
  readonly #activity: () => TenantActivity;
  readonly #results: ResultWaits;
  /** Claims and waits for results. */
  #waits = 0;

  constructor(namespace: string, shared: Shared) {
    const { env, leases, tasks, pauses, activities, limits } = shared;
    const slotsOf = (options: ConstructorParameters<typeof Slots>[1]) =>
      new Slots(env.clock, options);
    this.#pages = slotsOf({ slots: PAGES, what: "pages of a tenant" });
    this.#scans = slotsOf({
      slots: limits.tenantScans ?? Infinity,
      what: "reads of a tenant that count or filter",
      mostWaiting: MOST_SCANS_WAITING,
      rest: "asLong",
    });
    const lane = () =>
      slotsOf({ slots: LEASES_IN_STORE, what: "leases of a tenant", rest: "none" });
    this.#inStore = { acquire: lane(), renew: lane(), release: lane() };
    const claimSlots = slotsOf({
      slots: CLAIMS,
      what: "claims of a tenant",
      remedy: "claim from fewer queues, or with fewer claims at once",
    });
    this.#claimSlots = claimSlots;
    const claims = {
      capabilities: tasks.capabilities,
      async claim(request: ClaimRequest, options: ClaimOptions = {}): Promise<ClaimOutcome> {
        const call = async (within: ClaimOptions) => {
          const queues = await pauses.openQueues(namespace, request.queues);
          return tasks.claim({ ...request, queues }, within);
        };
        // A claim that waits in the store would hold its slots meanwhile.
        if (tasks.capabilities.remoteWait) return call(options);
        const { signal, timeoutMs = LONGEST_CLAIM_WAIT_MS } = options;
        const dueMs = env.clock.monotonic() + timeoutMs;
        const rest = () => Math.max(SHORTEST_CLAIM_MS, dueMs - env.clock.monotonic());
        const slots = request.queues.length * (request.kinds === null ? 1 : KINDS_RATIO);
        const begin = () => call({ ...options, timeoutMs: rest() });
        const begun = await claimSlots.begin(begin, { slots, timeoutMs, signal }).catch((why) => {
          if (signal?.aborted || (why as ProblemError).code === "CLOSING") return null;
          throw why;
        });
        return begun ? begun.answer : NOTHING;
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

  /** The shares of its bounds that are in use; of slots those of the kind that has the fewest left. */
  get used(): Used {
    const slots = [this.#scans, this.#pages, this.#claimSlots, ...Object.values(this.#inStore)];
    return {
      waits: this.#waits / this.#limits.waiters,
      streams: this.#streams / this.#limits.streams,
      slots: Math.max(...slots.map(({ used }) => used)),
    };
  }

  get #streams(): number {
    return this.#events.streams + this.#activity().streams;
  }

  /** @throws LIMIT_REACHED */
  claim(request: ClaimRequest, options: ReadyOptions): Promise<ClaimOutcome> {
    return this.#waiting(async () => {
      const claimed = this.#activity().recent.claiming(request);
      try {
        // A stuck worker only says so.
        if (request.abandoned !== undefined) return NOTHING;
        return await this.#ready.claim(request, options);
      } finally {
        claimed();
      }
    });
  }

  /**
   * Waits for the result of a task: null if its time is over, the signal aborts or this instance is closing.
   * @throws LIMIT_REACHED, STORE_UNAVAILABLE
   */
  result(
    id: string,
    { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
  ): Promise<TaskResult | null> {
    return this.#waiting(async () => {
      try {
        return await this.#results.of(id, { timeoutMs, signal });
      } catch (error) {
        if (signal.aborted || error instanceof ClosedError) return null;
        if (error instanceof TimedOutError && error.cause === undefined) return null;
        throw error instanceof TimedOutError ? error.cause : error;
      }
    });
  }

  /**
   * Begins a scan when there is a slot for it. It is under way until it has ended in the store, also if its caller has given up.
   * @throws TOO_MANY_REQUESTS
   */
  scan<T>(timeoutMs: number, scan: () => Promise<T>): Promise<Begun<T>> {
    return this.#scans.begin(scan, { timeoutMs: Math.min(timeoutMs, LONGEST_SCAN_WAIT_MS) });
  }

  /** @param read also writes what it has read, or its caller does in the same turn */
  page<T>(read: () => Promise<T>): Promise<T> {
    return this.#pages.run(read);
  }

  /** @param leases Infinity: it is in the store alone */
  inStore<T>(operation: LeaseOperation, leases: number, call: () => Promise<T>): Promise<T> {
    return this.#inStore[operation].run(call, { slots: leases });
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
    this.#claimSlots.close();
    this.#scans.close();
    await Promise.all([this.#ready.close(), this.#results.close(), this.#events.close()]);
  }

  /**
   * A listener whose streams end above the limit. A stream counts from its first read, because some are never
   * read; of many that are created at once, only as many begin as there is room for.
   * @throws LIMIT_REACHED
   */
  #limited(listener: Listener): Listener {
    const most = this.#limits.streams;
    const hasRoom = () => this.#streams < most;
    if (!hasRoom()) throw limitReached("streams", most, "event streams");
    return { ...listener, hasRoom };
  }

  async #waiting<T>(wait: () => Promise<T>): Promise<T> {
    const { waiters } = this.#limits;
    if (this.#waits >= waiters)
      throw limitReached("waits", waiters, "requests that wait for tasks");
    this.#waits += 1;
    try {
      return await wait();
    } finally {
      this.#waits -= 1;
    }
  }
}

function limitReached(scarce: "waits" | "streams", most: number, what: string): ProblemError {
  return tooMany(scarce, `a tenant may have at most ${most} ${what}`, RETRY_MS);
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

  /** The largest share that any tenant uses of each bound. */
  get used(): Used {
    const all = [...this.#tenants.values()].map(({ used }) => used);
    const most = (name: keyof Used) => Math.max(0, ...all.map((used) => used[name]));
    return { waits: most("waits"), streams: most("streams"), slots: most("slots") };
  }

  async close(): Promise<void> {
    await Promise.all([...this.#tenants.values()].map((tenant) => tenant.close()));
  }
}
