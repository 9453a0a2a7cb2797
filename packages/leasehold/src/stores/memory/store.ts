/** Leases in this process's memory: applies the rules to a map. */

import {
  type AcquireOutcome,
  type AcquireRequest,
  acquireAt,
  type CallOptions,
  type Capabilities,
  ClosedError,
  type Decision,
  type Failed,
  type Key,
  type LeaseRecord,
  type LeaseStore,
  type LeaseView,
  type ListQuery,
  type Page,
  type ReleaseOutcome,
  type ReleaseRequest,
  type RenewOutcome,
  type RenewRequest,
  type RevokeOutcome,
  type RevokeRequest,
  rules,
  viewOf,
  type WatchEvent,
  waiterOf,
} from "../../core/index.js";
import { type Env, type EventQueue, grantIdOf, isoTime } from "../../env/index.js";
import { LeaseRecords } from "./lease-records.js";
import { listOf } from "./views.js";
import { WaitQueue } from "./wait-queue.js";
import { follow } from "./watch.js";

const WHAT = "the store";
/** The two clocks drift apart by less than this unless one was set or the process was paused. */
const JUMP_MS = 1_000;

/** State shared by all stores of one name. It uses the clock of the env that created it. */
export class MemoryLeaseState {
  readonly namespaces = new Map<string, Namespace>();
  #originMs: number;

  /**
   * @param clockToken the lower bound of a new token; default 0, because memory loses no token. A
   *   simulated store that can lose its last writes needs a bound that grows with time.
   */
  constructor(
    readonly clock: Env["clock"],
    readonly clockToken: () => number = () => 0,
  ) {
    this.#originMs = clock.wall() - clock.monotonic();
  }

  /** Store time for display. It follows jumps of the wall clock, but not its jitter. */
  wallAt(storeMs: number): string {
    const originMs = this.clock.wall() - this.clock.monotonic();
    if (Math.abs(originMs - this.#originMs) >= JUMP_MS) this.#originMs = originMs;
    return isoTime(Math.floor(this.#originMs + storeMs));
  }

  namespace(name: string): Namespace {
    let namespace = this.namespaces.get(name);
    if (!namespace) {
      namespace = {
        records: new LeaseRecords(),
        waitQueue: new WaitQueue(),
        paused: new Set(),
        tokenFloor: 0,
        watchers: new Set(),
      };
      this.namespaces.set(name, namespace);
    }
    return namespace;
  }
}

interface Namespace {
  readonly records: LeaseRecords;
  readonly waitQueue: WaitQueue;
  /** Resources paused by operators. */
  readonly paused: Set<string>;
  /** The largest token among collected records. */
  tokenFloor: number;
  readonly watchers: Set<EventQueue<WatchEvent>>;
}

/** What the rules answer with a term. */
interface Granted<Status extends string> {
  readonly status: Status;
  readonly token: number;
  readonly ttlMs: number;
  readonly remainingMs: number;
}

/** A rule, with its request and the time bound; `namespace` gives access to other state it needs. */
type Step<Outcome> = (record: LeaseRecord | null, namespace: Namespace) => Decision<Outcome>;

export class MemoryLeaseStore implements LeaseStore {
  readonly capabilities: Capabilities = {
    clock: "store",
    grants: "portable",
    ttl: { minMs: 1, maxMs: 2 ** 31 - 1, stepMs: 1 },
    queue: true,
    watch: "push",
    epsilonMs: 0,
  };
  readonly #state: MemoryLeaseState;
  readonly #watching = new Set<EventQueue<WatchEvent>>();
  #closed = false;

  constructor(state: MemoryLeaseState) {
    this.#state = state;
  }

  async acquire(
    requests: readonly AcquireRequest[],
    { returnReplaced = false }: CallOptions = {},
  ): Promise<AcquireOutcome[]> {
    const nowMs = this.#now();
    return requests.map((request) => {
      let replaced: LeaseView | undefined;
      const outcome = this.#decide<AcquireOutcome>(request, nowMs, (record, namespace) => {
        const { waitQueue, tokenFloor, paused } = namespace;
        const token = (last: number) => rules.nextToken(last, tokenFloor, this.#state.clockToken());
        const { resource, leaseId } = request;
        const position = waitQueue.position(resource, leaseId, nowMs);
        const isPaused = paused.has(resource);
        const decision = acquireAt(position, record, request, nowMs, token, isPaused);
        if (decision.waiter === "served") waitQueue.serve(resource, leaseId);
        else {
          const waiter = waiterOf(request, nowMs);
          if (waiter) waitQueue.put(resource, waiter);
        }
        if (returnReplaced && record && decision.record !== record) {
          replaced = this.#view(request, record);
        }
        return decision;
      });
      if (outcome.status === "acquired") {
        const granted = this.#withTerm(outcome, nowMs);
        return replaced ? { ...granted, replaced } : granted;
      }
      if (outcome.status !== "held") return outcome;
      const { remainingMs } = outcome;
      return { ...outcome, remainingMs: remainingMs === null ? null : Math.ceil(remainingMs) };
    });
  }

  async renew(requests: readonly RenewRequest[]): Promise<RenewOutcome[]> {
    const nowMs = this.#now();
    return requests.map((request) => {
      const outcome = this.#decide<RenewOutcome>(request, nowMs, (record) =>
        rules.renew(record, request, nowMs),
      );
      return outcome.status === "renewed" ? this.#withTerm(outcome, nowMs) : outcome;
    });
  }

  async release(requests: readonly ReleaseRequest[]): Promise<ReleaseOutcome[]> {
    const nowMs = this.#now();
    return requests.map((request) =>
      this.#decide<ReleaseOutcome>(request, nowMs, (record, namespace) => {
        const decision = rules.release(record, request, nowMs);
        if (decision.record === record) {
          const { resource, leaseId } = request;
          const passedOn = namespace.waitQueue.withdraw(resource, leaseId, nowMs);
          const isFree = !record || !rules.excludes(record, nowMs);
          if (passedOn && isFree) this.#notify(namespace, request, nowMs);
        }
        return decision;
      }),
    );
  }

  async revoke(requests: readonly RevokeRequest[]): Promise<RevokeOutcome[]> {
    const nowMs = this.#now();
    return requests.map((request) => {
      const outcome = this.#decide<RevokeOutcome>(request, nowMs, (record) =>
        rules.revoke(record, request, nowMs),
      );
      if (outcome.status !== "revoked") return outcome;
      return { ...outcome, freeInMs: Math.ceil(outcome.freeInMs) };
    });
  }

  async get(keys: readonly Key[]): Promise<(LeaseView | null)[]> {
    this.#assertOpen();
    return keys.map((key) => {
      const record = this.#state.namespaces.get(key.namespace)?.records.get(key.resource);
      return record ? this.#view(key, record) : null;
    });
  }

  async list(query: ListQuery): Promise<Page<LeaseView>> {
    this.#assertOpen();
    const records = this.#state.namespaces.get(query.namespace)?.records;
    const nowMs = this.#now();
    return listOf(records, query, nowMs, (key, record) => this.#view(key, record));
  }

  async *watch(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<WatchEvent, void, void> {
    this.#assertOpen();
    const { watchers } = this.#state.namespace(namespace);
    yield* follow(signal, [watchers, this.#watching]);
  }

  async collect(olderThanMs: number): Promise<number> {
    this.#assertOpen();
    const nowMs = this.#now();
    let collected = 0;
    for (const namespace of this.#state.namespaces.values()) {
      namespace.waitQueue.collect(nowMs);
      for (const [resource, record] of namespace.records) {
        // The expiry records when the grant ended, whatever ended it.
        if (rules.excludes(record, nowMs) || record.expiresAtMs >= nowMs - olderThanMs) continue;
        namespace.tokenFloor = Math.max(namespace.tokenFloor, record.token);
        namespace.records.delete(resource);
        collected += 1;
      }
    }
    return collected;
  }

  /** Pauses a resource, or resumes it and wakes the first waiter. */
  setPaused(key: Key, paused: boolean): void {
    const namespace = this.#state.namespace(key.namespace);
    if (paused) namespace.paused.add(key.resource);
    else if (namespace.paused.delete(key.resource)) {
      this.#notify(namespace, key, this.#state.clock.monotonic());
    }
  }

  /** Ends this store's watchers; the records stay for other stores of the same name. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const watcher of this.#watching) watcher.end();
  }

  /** One time for all requests of a call, as in the statements of the other stores. */
  #now(): number {
    return this.#state.clock.monotonic();
  }

  #decide<Outcome>(
    key: Key,
    nowMs: number,
    step: Step<Outcome>,
  ): Decision<Outcome>["outcome"] | Failed {
    if (this.#closed) {
      return { status: "failed", applied: "no", retryable: false, error: new ClosedError(WHAT) };
    }
    const namespace = this.#state.namespace(key.namespace);
    const before = namespace.records.get(key.resource) ?? null;
    const { record, outcome } = step(before, namespace);
    if (record && record !== before) {
      namespace.records.set(key.resource, record);
      // Only the end of a grant helps a waiter; new grants and renewals do not.
      if (record.ended) this.#notify(namespace, key, nowMs);
    }
    return outcome;
  }

  /** Wakes only the first waiter. */
  #notify(namespace: Namespace, { namespace: name, resource }: Key, nowMs: number): void {
    const first = namespace.waitQueue.first(resource, nowMs);
    for (const watcher of namespace.watchers) {
      watcher.push({
        type: "changed",
        namespace: name,
        resource,
        ...(first && { wakes: grantIdOf(first.leaseId) }),
      });
    }
  }

  /**
   * Rounds down to whole milliseconds, so that the holder stops early rather than late. Written out: objects made by
   * spreading outlive the collections of young objects, which then cost more than the grants.
   */
  #withTerm<Status extends string>(
    { status, token, ttlMs, remainingMs }: Granted<Status>,
    nowMs: number,
  ) {
    return {
      status,
      token,
      ttlMs,
      remainingMs: Math.floor(remainingMs),
      expiresAt: this.#state.wallAt(nowMs + remainingMs),
    };
  }

  #view(key: Key, record: LeaseRecord): LeaseView {
    const { clock } = this.#state;
    return viewOf(key, record, clock.monotonic(), (storeMs) => this.#state.wallAt(storeMs));
  }

  #assertOpen(): void {
    if (this.#closed) throw new ClosedError(WHAT);
  }
}
