/** The client: everything that a program does with leases starts here. */
import { type Env, envFrom, invariant, newHolder, withTimeout } from "../env/index.js";
import { Aborting, Calls } from "./aborting.js";
import { acquire, tryAcquire, type WaitManner } from "./acquire.js";
import { batched } from "./batching.js";
import { type LeaseContext, tracked } from "./context.js";
import { ClosedError, InvalidOptionError, StoreUnavailableError } from "./errors.js";
import { HeldLease } from "./held-lease.js";
import { HeldLeases } from "./held-leases.js";
import { acquireInOrder, checkResources, type LeaseGroup } from "./lease-group.js";
import { measureAcquire } from "./measure.js";
import { checkName, checkNewName, checkNotBlank } from "./names.js";
import { isUnder, runUnder } from "./nesting.js";
import {
  type AcquireOptions,
  type ClientOptions,
  checkInteger,
  checkKnown,
  checkNumber,
  checkObject,
  checkOptional,
  checkPage,
  checkSignal,
  HOLDING,
  LEASE_STATES,
  type LeaseOptions,
  type ResolvedOptions,
  resolveOptions,
  withoutUndefined,
} from "./options.js";
import type {
  Capabilities,
  LeaseStore,
  LeaseView,
  ListQuery,
  Page,
  RevokeOutcome,
  RevokeRequest,
  WatchEvent,
} from "./port.js";
import { RenewalScheduler } from "./renewal-scheduler.js";
import { Retrying, UNLESS_APPLIED } from "./retrying.js";
import { type ReusableLease, reusableLeaseOver } from "./reusable-lease.js";
import {
  NoLease,
  type OnUnavailable,
  type RunOptions,
  type Work,
  type WorkArguments,
  workArguments,
} from "./run.js";
import { NestedRunError } from "./run-errors.js";
import type { RenewalThread } from "./thread.js";
import { lossOr } from "./thrown-late.js";
import { type Held, LocalQueue, Notifications } from "./waiter.js";

/** The result of `tryRun`: what the work returned, or who holds the resource. */
export type TryRunResult<T> =
  | ({ readonly ran: true } & { readonly value: T })
  | ({ readonly ran: false } & Held);

/** The result of `revoke`: `notHeld` when there was no live grant, `otherToken` when it was not the expected one. */
export type RevokeResult = Exclude<RevokeOutcome, { status: "failed" }>;

const REUSABLE: Readonly<Record<keyof LeaseOptions, true>> = {
  ...HOLDING,
  signal: true,
  acquireRetries: true,
  acquireRetryDelayMs: true,
};

const PATIENTLY: WaitManner = {};

/** What a client closes at its end; `close` is undefined where the caller does. */
export interface Owned {
  readonly close: (() => Promise<void>) | undefined;
  /** Renews the leases as well; see ConnectOptions.renewIn. */
  readonly thread?: RenewalThread | undefined;
}

/** Leases on the resources of one namespace: the part of `Leasehold` that needs no other. See there for each method. */
export class LeaseClient implements AsyncDisposable {
  readonly #store: LeaseStore;
  readonly #retrying: Retrying;
  readonly #context: LeaseContext;
  readonly defaults: AcquireOptions;
  /** For those who ask for nothing else: one object for all of them. */
  readonly #resolved: ResolvedOptions;
  readonly #graceMs: number;
  readonly #owned: Owned;
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  #closed: Promise<void> | undefined;

  constructor(store: LeaseStore, options: ClientOptions, owned: Owned) {
    const env = envFrom(options);
    const namespace = options.namespace ?? "default";
    const holder = options.holder ?? newHolder(env.random);
    checkName("namespace", namespace);
    checkNotBlank("namespace", namespace);
    checkName("holder", holder);
    const { graceMs = 5_000 } = options;
    checkNumber("graceMs", graceMs, 0, Number.MAX_SAFE_INTEGER);
    this.#graceMs = graceMs;
    this.defaults = options.defaults ?? {};
    // Reject wrong defaults now, not at the first lease.
    this.#resolved = resolveOptions(this.defaults, {}, store.capabilities.ttl);
    [this.#store, this.#retrying] = [store, new Retrying(env)];
    this.#owned = owned;
    this.#context = {
      capabilities: store.capabilities,
      batched: batched(store, env.clock, {}, env.telemetry),
      env,
      scheduler: new RenewalScheduler(env.clock),
      thread: owned.thread,
      notifications: new Notifications(store, namespace, env),
      localQueue: new LocalQueue(),
      namespace,
      holder,
      held: new HeldLeases(),
      aborting: new Aborting(),
      calls: new Calls(),
      closing: this.#closing.signal,
      releasing: new Set(),
    };
  }

  /** Who we are to others: `options.holder`, or a name made for this client. */
  get holder(): string {
    return this.#context.holder;
  }

  /** The tenant whose resources these are. */
  get namespace(): string {
    return this.#context.namespace;
  }

  /** Aborts when close() is called. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Clock, randomness and logger, for what is built on leases. */
  get env(): Env {
    return this.#context.env;
  }

  /** What the store promises, for what is built on leases. */
  get capabilities(): Capabilities {
    return this.#context.capabilities;
  }

  /** Calls back on every notification about the resource until the returned function is called. */
  listen(resource: string, listener: () => void): () => void {
    this.#checkOpen();
    return this.#context.notifications.subscribe(resource, listener);
  }

  run<T>(resource: string, work: Work<T, HeldLease>): Promise<T>;
  run<T>(resource: string, options: RunOptions, work: Work<T, HeldLease>): Promise<T>;
  async run<T>(resource: string, ...rest: WorkArguments<T, HeldLease>): Promise<T> {
    const { options, onUnavailable, work } = workArguments(rest, ["wait", "fail", "unfenced"]);
    const taking = this.#acquire(resource, options, { isPatient: onUnavailable === "wait" });
    return this.#do(await this.#orUnfenced(taking, resource, onUnavailable), work);
  }

  /** As `run`, for a candidate that stands by as long as another one leads: its wait is no news. */
  async standBy<T>(
    resource: string,
    options: AcquireOptions,
    work: Work<T, HeldLease>,
  ): Promise<T> {
    const lease = await this.#acquire(resource, options, { isStandby: true });
    return this.#untilSettled(this.#doAndRelease(lease, work));
  }

  async tryRun<T>(
    resource: string,
    ...rest: WorkArguments<T, HeldLease>
  ): Promise<TryRunResult<T>> {
    const { options, onUnavailable, work } = workArguments(rest, ["fail", "unfenced"]);
    const taking = this.#attempt(resource, options);
    const lease = await this.#orUnfenced(taking, resource, onUnavailable);
    if (!("checkAlive" in lease)) return { ran: false, ...lease };
    return { ran: true, value: await this.#do(lease, work) };
  }

  acquire(resource: string, options: AcquireOptions = {}): Promise<HeldLease> {
    return this.#acquire(resource, options);
  }

  async acquireAll(
    resources: readonly string[],
    options: AcquireOptions = {},
  ): Promise<LeaseGroup> {
    checkResources(resources);
    const { waitMs } = this.#resolve(resources[0] ?? "", options);
    for (const resource of resources) checkNewName("resource", resource);
    const { clock } = this.env;
    const deadlineMs = clock.monotonic() + waitMs;
    return acquireInOrder(
      resources,
      (resource, leftMs) => this.acquire(resource, { ...options, waitMs: leftMs }),
      () => deadlineMs - clock.monotonic(),
    );
  }

  async tryAcquire(resource: string, options: AcquireOptions = {}): Promise<HeldLease | null> {
    const lease = await this.#attempt(resource, options);
    return lease instanceof HeldLease ? lease : null;
  }

  reusableLease(resource: string, options: LeaseOptions = {}): ReusableLease {
    checkKnown(options, REUSABLE);
    const { acquireRetries = 3, acquireRetryDelayMs = 200, ...own } = options;
    checkInteger("acquireRetries", acquireRetries, 0, Number.MAX_SAFE_INTEGER);
    checkNumber("acquireRetryDelayMs", acquireRetryDelayMs, 0, Number.MAX_SAFE_INTEGER);
    const resolved = this.#resolve(resource, own);
    return reusableLeaseOver(this.#context, resource, {
      ...resolved,
      acquireRetries,
      acquireRetryDelayMs,
    });
  }

  async get(resource: string): Promise<LeaseView | null> {
    this.#checkOpen();
    checkName("resource", resource);
    const [view] = await this.#store.get([{ namespace: this.namespace, resource }]);
    return view ?? null;
  }

  async list(query: Omit<ListQuery, "namespace"> = {}): Promise<Page<LeaseView>> {
    this.#checkOpen();
    checkPage(query, { prefix: true, states: true, renewedOnly: true }, LEASE_STATES);
    return this.#store.list({ ...query, namespace: this.namespace });
  }

  /** Tries a read again while the store fails for a moment. Loops that poll read once, and learn of a failure at once. */
  read<T>(read: (leases: this) => Promise<T>): Promise<T> {
    return this.#retrying.read(() => read(this));
  }

  async revoke(
    resource: string,
    options: { expectedToken?: number; free?: "atExpiry" | "now"; reason?: string } = {},
  ): Promise<RevokeResult> {
    this.#checkOpen();
    checkName("resource", resource);
    checkKnown(options, { expectedToken: true, free: true, reason: true });
    checkOptional("string", options, ["reason"]);
    const { free = "atExpiry", expectedToken } = options;
    if (free !== "atExpiry" && free !== "now") {
      throw new InvalidOptionError("free", 'must be "atExpiry" or "now"');
    }
    if (expectedToken !== undefined) {
      checkInteger("expectedToken", expectedToken, 1, Number.MAX_SAFE_INTEGER);
    }
    const request = { ...withoutUndefined(options), namespace: this.namespace, resource, free };
    const revoke = (some: readonly RevokeRequest[]) => this.#store.revoke(some);
    const [outcome] = await this.#retrying.batch([request], revoke, UNLESS_APPLIED);
    invariant(outcome, "one outcome per request");
    if (outcome.status === "failed") throw outcome.error;
    return outcome;
  }

  watch(options: { signal: AbortSignal }): AsyncIterable<WatchEvent> {
    this.#checkOpen();
    checkObject("options", options);
    checkSignal(options.signal);
    return this.#store.watch(this.namespace, options);
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    const { env, held } = this.#context;
    const closed = new ClosedError();
    this.#closing.abort(closed);
    this.#context.calls.abort(closed);
    for (const lease of held.list()) lease.interrupt(closed);
    await withTimeout(env.clock, this.#graceMs, this.#drained(), () => {});
    const kept = held.list().filter((lease) => lease.isWorkedUnder);
    if (this.#running.size > 0 && kept.length > 0) {
      const resources = kept.slice(0, 5).map(({ resource }) => resource);
      const heldForMs = Math.ceil(Math.max(...kept.map((lease) => lease.remainingMs())));
      env.logger.error({ resources, graceMs: this.#graceMs, heldForMs }, "the work does not stop");
    }
    await Promise.all(held.list().map((lease) => lease.letGo()));
    // Each of these is bounded by its own timeout.
    await Promise.allSettled(this.#context.releasing);
    await this.#owned.close?.();
  }

  /** The resources whose leases this client holds. */
  heldResources(): string[] {
    return this.#context.held.list().map(({ resource }) => resource);
  }

  /** Resolves when no work runs and nothing is held. */
  async #drained(): Promise<void> {
    await this.#context.calls.ended();
    await Promise.allSettled(this.#running);
    await Promise.all(
      this.#context.held
        .list()
        .map((lease) => new Promise<void>((resolve) => lease.onEnd(resolve))),
    );
  }

  /** No async function, whose promise would only pass another one on. */
  #acquire(
    resource: string,
    options: AcquireOptions,
    manner: WaitManner = PATIENTLY,
  ): Promise<HeldLease> {
    try {
      const resolved = this.#resolve(resource, options);
      const isNested = isUnder(this.env.scope, this.#context.held.get(resource));
      if (isNested) throw new NestedRunError(resource);
      return measureAcquire(this.env, () => acquire(this.#context, resource, resolved, manner));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Falls back to a NoLease while the store is unavailable, if the caller accepts that. */
  async #orUnfenced<T>(
    taking: Promise<T>,
    resource: string,
    onUnavailable: OnUnavailable,
  ): Promise<T | NoLease> {
    try {
      return await taking;
    } catch (error) {
      const isUnavailable = error instanceof StoreUnavailableError && !this.closing.aborted;
      if (onUnavailable !== "unfenced" || !isUnavailable) throw error;
      const event = { event: "lease_unfenced", err: error, resource };
      this.env.logger.warn(event, "the store is unavailable: the work runs unfenced");
      return new NoLease(resource, this.holder, this.#closing.signal);
    }
  }

  #do<T>(lease: HeldLease | NoLease, work: Work<T, HeldLease | NoLease>): Promise<T> {
    return this.#untilSettled(
      lease instanceof HeldLease
        ? this.#doAndRelease(lease, work)
        : Promise.resolve(lease).then(work),
    );
  }

  /** What close() waits for, within its grace. */
  #untilSettled<T>(running: Promise<T>): Promise<T> {
    return tracked(this.#running, running);
  }

  async #doAndRelease<T>(lease: HeldLease, work: Work<T, HeldLease>): Promise<T> {
    // A client that closes meanwhile does not release it.
    lease.isWorkedUnder = true;
    try {
      const value = await runUnder(this.env.scope, lease, () => work(lease));
      lease.checkAlive();
      if (lease.lostError) throw lease.lostError;
      return value;
    } catch (error) {
      throw lossOr(error, lease, this.env.logger);
    } finally {
      await lease[Symbol.asyncDispose]();
    }
  }

  async #attempt(resource: string, options: AcquireOptions): Promise<HeldLease | Held> {
    const resolved = this.#resolve(resource, options);
    return measureAcquire(this.env, () => tryAcquire(this.#context, resource, resolved));
  }

  /** @throws CLOSED */
  #checkOpen(): void {
    if (this.closing.aborted) throw new ClosedError();
  }

  #resolve(resource: string, options: AcquireOptions): ResolvedOptions {
    this.#checkOpen();
    checkNewName("resource", resource);
    checkNewName("holder", this.holder);
    checkObject("options", options);
    if (Object.keys(options).length === 0) return this.#resolved;
    return resolveOptions(options, this.defaults, this.#context.capabilities.ttl);
  }
}
