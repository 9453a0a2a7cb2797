/** Leases in this process's memory: the rules decide, and this keeps records and waiters in maps. */

import { type Env, type EventQueue, grantIdOf, isoTime } from "../../env/index.js";
import {
  type Capabilities,
  ClosedError,
  type Key,
  type LeaseRecord,
  type LeaseStore,
  type LeaseView,
  type ListQuery,
  type Page,
  rules,
  viewOf,
  type WatchEvent,
} from "../../lease/index.js";
import { type Change, type Loaded, operationsIn, type Transaction } from "../../store-kit/index.js";
import { LeaseRecords } from "./lease-records.js";
import { listOf } from "./views.js";
import { WaitQueue } from "./wait-queue.js";
import { follow } from "./watch.js";

const WHAT = "the store";
/** The two clocks drift apart by less than this unless one was set or the process was paused. */
const JUMP_MS = 1_000;

/** State shared by all stores of one name. It uses the clock of the env that created it. */
export class MemoryLeaseState implements Transaction {
  readonly namespaces = new Map<string, Namespace>();
  /** Of the last transaction. */
  nowMs = 0;
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

  /** Begins a transaction, which ends with the synchronous work that is done in it. */
  begin(): Transaction {
    this.nowMs = this.clock.monotonic();
    return this;
  }

  load({ namespace, resource }: Key, leaseId: string | undefined): Loaded<null> {
    const { records, paused, tokenFloor, waitQueue } = this.namespace(namespace);
    return {
      record: records.get(resource) ?? null,
      version: null,
      isPaused: paused.size > 0 && paused.has(resource),
      leastToken: Math.max(tokenFloor + 1, this.clockToken()),
      queue: waitQueue.load(resource, leaseId, this.nowMs),
    };
  }

  save(change: Change<null>): void {
    const namespace = this.namespace(change.namespace);
    if (change.record) namespace.records.set(change.resource, change.record);
    namespace.waitQueue.save(change);
    if (change.wakes) this.notify(change, this.nowMs);
  }

  /** Wakes only the first waiter. */
  notify({ namespace: name, resource }: Key, nowMs: number): void {
    const namespace = this.namespace(name);
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
  readonly #textOf = (storeMs: number) => this.#state.wallAt(storeMs);
  readonly #watching = new Set<EventQueue<WatchEvent>>();
  #closed = false;
  readonly #operations = operationsIn(
    {
      transact: (work) => {
        this.#assertOpen();
        return work(this.#state.begin());
      },
      failed(error) {
        if (!(error instanceof ClosedError)) throw error;
        return { status: "failed", applied: "no", retryable: false, error };
      },
    },
    { textOf: this.#textOf },
  );
  readonly acquire = this.#operations.acquire;
  readonly renew = this.#operations.renew;
  readonly release = this.#operations.release;
  readonly revoke = this.#operations.revoke;

  constructor(state: MemoryLeaseState) {
    this.#state = state;
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
    const nowMs = this.#state.clock.monotonic();
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
    const nowMs = this.#state.clock.monotonic();
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
      this.#state.notify(key, this.#state.clock.monotonic());
    }
  }

  /** Ends this store's watchers; the records stay for other stores of the same name. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const watcher of this.#watching) watcher.end();
  }

  #view(key: Key, record: LeaseRecord): LeaseView {
    return viewOf(key, record, this.#state.clock.monotonic(), this.#textOf);
  }

  #assertOpen(): void {
    if (this.#closed) throw new ClosedError(WHAT);
  }
}
