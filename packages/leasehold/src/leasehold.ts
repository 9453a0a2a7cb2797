/** The client: leases, elections and tasks of one namespace, over one set of connections. */
import {
  type Elector,
  type ElectorOptions,
  electorOver,
  type Shards,
  type ShardsOptions,
  type Singleton,
  type SingletonOptions,
  type SingletonWork,
  shardsOver,
  singletonOver,
} from "./election/index.js";
import type {
  AcquireOptions,
  AnyLease,
  Capabilities,
  Lease,
  LeaseClient,
  LeaseGroup,
  LeaseOptions,
  LeaseView,
  ListQuery,
  Page,
  ReusableLease,
  RevokeResult,
  RunOptions,
  TryRunResult,
  UnfencedLease,
  WatchEvent,
  Work,
} from "./lease/index.js";
import type { LeaseholdParts } from "./leasehold-parts.js";
import type { OnceOptions, OnceResult, OnceWork } from "./once/index.js";
import type { Tasks } from "./tasks/index.js";

/** `connect()` calls it. Apart from the class, whose public type shows no constructor. */
export let leaseholdOver: (parts: LeaseholdParts) => Leasehold;
/** The lease client inside, for what the command line and the verification share of it. */
export let leasesOf: (leasehold: Leasehold | Leasehold<AnyLease>) => LeaseClient;

/**
 * A client of one namespace. Made by `connect()`.
 * @typeParam L what is acquired: perhaps an {@link UnfencedLease} after `connect(url, { unfenced: true })`
 * @example
 * ```ts
 * import { connect } from "leasehold";
 *
 * const leasehold = await connect("memory:", { namespace: "shop", holder: "web-1" });
 * console.log(leasehold.namespace, leasehold.holder, leasehold.capabilities.ttl.maxMs);
 * await leasehold.close();
 * ```
 */
export class Leasehold<L extends AnyLease = Lease> implements AsyncDisposable {
  static {
    leaseholdOver = (parts) => new Leasehold(parts);
    leasesOf = (leasehold) => leasehold.#parts.leases;
  }

  readonly #parts: LeaseholdParts;

  private constructor(parts: LeaseholdParts) {
    this.#parts = parts;
  }

  /** The identity of this client, shown to others: `options.holder`, or a name made for it. */
  get holder(): string {
    return this.#parts.leases.holder;
  }

  /** The tenant whose resources and tasks these are. */
  get namespace(): string {
    return this.#parts.leases.namespace;
  }

  /** What the store promises: its range of TTLs, whether it gives tokens, how it notifies. */
  get capabilities(): Capabilities {
    return this.#parts.leases.capabilities;
  }

  /**
   * Waits for the resource, runs the work, and releases. The lease's signal aborts when the lease is lost; the
   * call then rejects with LEASE_LOST once the work has ended, whatever the work returns. With
   * `onUnavailable: "unfenced"` the work may get an {@link UnfencedLease}.
   * @returns what the work returned
   * @throws LEASE_LOST, LEASE_UNAVAILABLE, STORE_UNAVAILABLE, INVALID_OPTION, CLOSED, the reason of
   *   `options.signal`, or what the work threw
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * console.log(await leasehold.run("billing", { ttlMs: 10_000 }, () => "sent"));
   * await leasehold.close();
   * ```
   */
  run<T>(resource: string, work: Work<T, L>): Promise<T>;
  run<T>(resource: string, options: RunOptions<"wait" | "fail">, work: Work<T, L>): Promise<T>;
  run<T>(resource: string, options: RunOptions, work: Work<T, L | UnfencedLease>): Promise<T>;
  run<T>(resource: string, ...rest: never[]): Promise<T> {
    return this.#parts.leases.run<T>(resource, ...(rest as unknown as [Work<T, Lease>]));
  }

  /**
   * Runs the work if the resource is free now.
   * @returns `{ ran: true, value }`, or `{ ran: false, holder, ... }` of who holds the resource
   * @throws as {@link Leasehold.run}, but never LEASE_UNAVAILABLE
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const result = await leasehold.tryRun("nightly-report", () => "written");
   * console.log(result.ran ? result.value : `left to ${result.holder}`);
   * await leasehold.close();
   * ```
   */
  tryRun<T>(resource: string, work: Work<T, L>): Promise<TryRunResult<T>>;
  tryRun<T>(
    resource: string,
    options: RunOptions<"fail">,
    work: Work<T, L>,
  ): Promise<TryRunResult<T>>;
  tryRun<T>(
    resource: string,
    options: RunOptions<"fail" | "unfenced">,
    work: Work<T, L | UnfencedLease>,
  ): Promise<TryRunResult<T>>;
  tryRun<T>(resource: string, ...rest: never[]): Promise<TryRunResult<T>> {
    return this.#parts.leases.tryRun<T>(resource, ...(rest as unknown as [Work<T, Lease>]));
  }

  /**
   * Waits for the resource, at most `waitMs`. The lease is renewed until it is released or lost.
   * @throws LEASE_UNAVAILABLE, STORE_UNAVAILABLE, INVALID_OPTION, CLOSED, or the signal's reason
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * await (await leasehold.acquire("report", { ttlMs: 10_000, waitMs: 5_000 })).release();
   * await leasehold.close();
   * ```
   */
  acquire(resource: string, options: AcquireOptions = {}): Promise<L> {
    return this.#parts.leases.acquire(resource, options) as Promise<unknown> as Promise<L>;
  }

  /**
   * Acquires the resource if it is free now. The lease is renewed until it is released or lost.
   * @returns the lease, or null if another holder has the resource
   * @throws STORE_UNAVAILABLE when the outcome is unknown, INVALID_OPTION, CLOSED, or the signal's reason
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const lease = await leasehold.tryAcquire("report");
   * console.log(lease ? "ours" : "held by another holder");
   * await lease?.release();
   * await leasehold.close();
   * ```
   */
  tryAcquire(resource: string, options: AcquireOptions = {}): Promise<L | null> {
    return this.#parts.leases.tryAcquire(
      resource,
      options,
    ) as Promise<unknown> as Promise<L | null>;
  }

  /**
   * Waits for all of the resources, at most `waitMs`, and holds all of them or none. Callers that want some of the
   * same resources never wait for each other in a circle.
   * @param resources at least one, each once
   * @throws as {@link Leasehold.acquire}; LEASE_LOST when one was lost while the last moment of `waitMs` passed
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const group = await leasehold.acquireAll(["account-1", "account-2"], { waitMs: 5_000 });
   * await group.release();
   * await leasehold.close();
   * ```
   */
  acquireAll(resources: readonly string[], options: AcquireOptions = {}): Promise<LeaseGroup<L>> {
    return this.#parts.leases.acquireAll(resources, options) as Promise<unknown> as Promise<
      LeaseGroup<L>
    >;
  }

  /**
   * An object that acquires and releases the resource any number of times. Sends nothing yet.
   * @throws INVALID_OPTION, CLOSED
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const lease = leasehold.reusableLease("shard-7", { ttlMs: 5_000 });
   * console.log(await lease.acquire());
   * await lease.release();
   * await leasehold.close();
   * ```
   */
  reusableLease(resource: string, options: LeaseOptions = {}): ReusableLease<L> {
    return this.#parts.leases.reusableLease(resource, options) as unknown as ReusableLease<L>;
  }

  /**
   * The last grant of a resource, live or ended; null when there is none.
   * @throws STORE_UNAVAILABLE, INVALID_OPTION, CLOSED
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * await leasehold.run("report", () => "written");
   * const view = await leasehold.get("report");
   * console.log(view?.state, view?.holder);
   * await leasehold.close();
   * ```
   */
  get(resource: string): Promise<LeaseView | null> {
    return this.#parts.leases.read((leases) => leases.get(resource));
  }

  /**
   * The leases of this namespace, live and ended, ordered by resource, in pages of `limit` (default 100).
   * @throws STORE_UNAVAILABLE, INVALID_OPTION, CLOSED
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * await leasehold.run("report/2026", () => "written");
   * const { items } = await leasehold.list({ prefix: "report/", limit: 10 });
   * console.log(items.map(({ resource }) => resource));
   * await leasehold.close();
   * ```
   */
  list(query: Omit<ListQuery, "namespace"> = {}): Promise<Page<LeaseView>> {
    return this.#parts.leases.read((leases) => leases.list(query));
  }

  /**
   * Ends the grant of another holder. `free: "atExpiry"` (default) keeps exclusion: renewals are refused, and the
   * resource is free when the granted time has passed. `"now"` frees at once: only the fence protects then.
   * @param options.expectedToken ends only the grant with this token; otherwise the result is `otherToken`
   * @param options.reason for the audit of a server, which may require one
   * @throws STORE_UNAVAILABLE (retried for 5 s, but not after `outcome: "unknown"`: read the lease first), INVALID_OPTION, CLOSED
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const lease = await leasehold.acquire("report");
   * const { status } = await leasehold.revoke("report", { expectedToken: lease.token, free: "now" });
   * console.log(status);
   * await lease.release();
   * await leasehold.close();
   * ```
   */
  revoke(
    resource: string,
    options: { expectedToken?: number; free?: "atExpiry" | "now"; reason?: string } = {},
  ): Promise<RevokeResult> {
    return this.#parts.leases.revoke(resource, options);
  }

  /**
   * Notifications about the leases of this namespace, until the signal aborts; the first is a `resync`. Subscribe
   * first, then read: a change in between is notified.
   * @throws CLOSED; STORE_UNAVAILABLE when the subscription breaks
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const watching = new AbortController();
   * for await (const event of leasehold.watch(watching)) {
   *   console.log(event);
   *   watching.abort();
   * }
   * await leasehold.close();
   * ```
   */
  watch(options: { signal: AbortSignal }): AsyncIterable<WatchEvent> {
    return this.#parts.leases.watch(options);
  }

  /**
   * A candidate of the election `name`. Sends nothing before `lead()` or `observe()`. On a store without tokens,
   * reading `term.token` throws NO_TOKEN.
   * @param name a resource, short enough for the suffix `/successor`
   * @throws INVALID_OPTION, CLOSED
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const elector = leasehold.elector("cluster", { ttlMs: 5_000 });
   * console.log(elector.state);
   * await leasehold.close();
   * ```
   */
  elector(name: string, options: ElectorOptions = {}): Elector {
    return electorOver(this.#parts.leases, name, options);
  }

  /**
   * Work that runs on one node at a time. Begins with `.start()`.
   * @throws INVALID_OPTION, CLOSED
   * @example
   * ```ts
   * import { once } from "node:events";
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const singleton = leasehold.singleton("outbox", async ({ signal }) => {
   *   await once(signal, "abort");
   * });
   * await singleton.start().close();
   * await leasehold.close();
   * ```
   */
  singleton(resource: string, work: SingletonWork, options: SingletonOptions = {}): Singleton {
    return singletonOver(this.#parts.leases, resource, work, options);
  }

  /**
   * A member of a group that shares work in shards. Joins with `.start()`.
   * @throws INVALID_OPTION, CLOSED
   * @example
   * ```ts
   * import { once } from "node:events";
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const work = async (shard, { signal }) => {
   *   await once(signal, "abort");
   * };
   * await leasehold.shards("mailboxes", { count: 4, work }).start().close();
   * await leasehold.close();
   * ```
   */
  shards(name: string, options: ShardsOptions): Shards {
    return shardsOver(this.#parts.leases, name, options);
  }

  /**
   * Does the work of `key`, of 1 to 200 bytes, unless it was done before: it succeeds at most once, for ever or for `keepMs`,
   * however many callers there are. Others wait while a caller works, at most `waitMs`, and get its value: JSON of at most
   * 64 KB. After work that throws, the next caller tries again. Needs a store that keeps tasks; see {@link OnceWork}.
   * @returns `{ ran: true, value }`, or `{ ran: false, value, at, by }` of the caller that did it
   * @throws ONCE_FAILED after `maxAttempts` failures; ONCE_DONE; as {@link Leasehold.run}
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const { ran, value } = await leasehold.once("bill-2026-11", () => "sent");
   * console.log(ran ? value : `${value} before`);
   * await leasehold.close();
   * ```
   */
  once<T>(key: string, work: OnceWork<T>): Promise<OnceResult<T>>;
  once<T>(key: string, options: OnceOptions, work: OnceWork<T>): Promise<OnceResult<T>>;
  async once<T>(
    key: string,
    ...rest: [OnceWork<T>] | [OnceOptions, OnceWork<T>]
  ): Promise<OnceResult<T>> {
    const [options, work] = rest.length === 2 ? rest : [{}, rest[0]];
    return (await this.#parts.once()).once(key, options, work);
  }

  /**
   * The tasks of this namespace, where the store keeps tasks (PostgreSQL, PGlite, memory, a server) or
   * `connect(url, { tasks })` names one that does.
   * @throws INVALID_OPTION where no store keeps tasks; CLOSED
   */
  get tasks(): Tasks {
    return this.#parts.tasks().tasks;
  }

  /**
   * Closes everything in order: workers stop claiming, their handlers drain and their completions are sent; waiters reject
   * with CLOSED; the signals of leases abort, their work gets `graceMs` to end, and they are released; connections that
   * `connect()` opened are closed. Work of `run`, `once`, an elector, a singleton or shards that still runs then keeps its
   * lease, which is no longer renewed, until it expires. Other leases are released even then: the client cannot see whether
   * anything relies on them. Returns the same promise each time; every other call then rejects with CLOSED.
   */
  close(): Promise<void> {
    return this.#parts.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
