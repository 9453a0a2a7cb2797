/**
 * Recent latencies of the store, in classes that are each a quarter wider than the previous one. So a
 * percentile is accurate to about a tenth of its value.
 */
import type { Clock, LeaseStore } from "leasehold";
import type { TaskStore } from "leasehold/internal";
import { PerSecond } from "./per-second.js";

const FIRST_MS = 0.05;
const RATIO = 1.25;
/** The last class holds calls of more than a minute. */
const CLASSES = 64;
/** The window of an operation's percentiles. */
const LATEST_S = 60;

type ClassName = `${number}`;

export interface Latency {
  readonly store: "leases" | "tasks";
  readonly operation: string;
  readonly calls: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

export class Latencies {
  readonly #clock: Clock;
  readonly #all: PerSecond<ClassName>;
  readonly #operations = new Map<string, PerSecond<ClassName>>();

  /** @param seconds the number of seconds for which {@link series} has percentiles */
  constructor(clock: Clock, seconds: number) {
    this.#clock = clock;
    this.#all = new PerSecond(clock, seconds);
  }

  note(store: Latency["store"], operation: string, tookMs: number): void {
    const name = classOf(tookMs);
    const key = `${store} ${operation}`;
    let own = this.#operations.get(key);
    if (!own) {
      own = new PerSecond(this.#clock, LATEST_S);
      this.#operations.set(key, own);
    }
    own.add(name);
    this.#all.add(name);
  }

  /** Latencies of the last minute, without operations that were not called in it. */
  byOperation(): Latency[] {
    return [...this.#operations].flatMap(([key, own]) => {
      const counts = NAMES.map((name) => own.sum(name, LATEST_S));
      const calls = counts.reduce((sum, count) => sum + count, 0);
      if (calls === 0) return [];
      const [store, operation] = key.split(" ") as [Latency["store"], string];
      const [p50Ms, p99Ms] = [percentile(counts, calls, 0.5), percentile(counts, calls, 0.99)];
      return [{ store, operation, calls, p50Ms, p99Ms }];
    });
  }

  /** Percentiles of each of the last seconds; null where no call ended. */
  series(seconds: number): { p50Ms: (number | null)[]; p99Ms: (number | null)[] } {
    const rows = NAMES.map((name) => this.#all.of(name, seconds));
    const calls = Array.from({ length: seconds }, (_, second) =>
      rows.reduce((sum, row) => sum + (row[second] ?? 0), 0),
    );
    const of = (share: number) =>
      calls.map((all, second) => {
        if (all === 0) return null;
        const counts = rows.map((row) => row[second] ?? 0);
        return percentile(counts, all, share);
      });
    return { p50Ms: of(0.5), p99Ms: of(0.99) };
  }
}

const NAMES = Array.from({ length: CLASSES }, (_, index): ClassName => `${index}`);

function classOf(tookMs: number): ClassName {
  const index = Math.ceil(Math.log(Math.max(tookMs, FIRST_MS) / FIRST_MS) / Math.log(RATIO));
  return `${Math.min(index, CLASSES - 1)}`;
}

/** The middle of the class that contains the percentile. */
function percentile(counts: readonly number[], calls: number, share: number): number {
  let left = Math.ceil(calls * share);
  const index = counts.findIndex((count) => {
    left -= count;
    return left <= 0;
  });
  const middleMs = FIRST_MS * RATIO ** (Math.max(index, 0) - 0.5);
  return Number(middleMs.toPrecision(3));
}

type Timed = <T>(operation: string, call: () => Promise<T>) => Promise<T>;

function timing(clock: Clock, latencies: Latencies, store: Latency["store"]): Timed {
  return async (operation, call) => {
    const sentMs = clock.monotonic();
    try {
      return await call();
    } finally {
      latencies.note(store, operation, clock.monotonic() - sentMs);
    }
  };
}

export function timedLeases(store: LeaseStore, clock: Clock, latencies: Latencies): LeaseStore {
  const timed = timing(clock, latencies, "leases");
  return {
    capabilities: store.capabilities,
    acquire: (requests, options) => timed("acquire", () => store.acquire(requests, options)),
    renew: (requests, options) => timed("renew", () => store.renew(requests, options)),
    release: (requests, options) => timed("release", () => store.release(requests, options)),
    revoke: (requests, options) => timed("revoke", () => store.revoke(requests, options)),
    get: (keys) => timed("get", () => store.get(keys)),
    list: (query) => timed("list", () => store.list(query)),
    watch: (namespace, options) => store.watch(namespace, options),
    collect: (olderThanMs) => store.collect(olderThanMs),
    close: () => store.close(),
  };
}

export function timedTasks(store: TaskStore, clock: Clock, latencies: Latencies): TaskStore {
  const timed = timing(clock, latencies, "tasks");
  return {
    capabilities: store.capabilities,
    enqueue: (tasks, options) => timed("enqueue", () => store.enqueue(tasks, options)),
    claim(request, options) {
      // A claim may wait in the store. The wait is not the store's latency.
      const waits = request.waitMs && store.capabilities.remoteWait;
      const call = () => store.claim(request, options);
      return waits ? call() : timed("claim", call);
    },
    heartbeat: (requests, options) => timed("heartbeat", () => store.heartbeat(requests, options)),
    complete: (requests, options) => timed("complete", () => store.complete(requests, options)),
    fail: (requests, options) => timed("fail", () => store.fail(requests, options)),
    requeue: (requests, options) => timed("requeue", () => store.requeue(requests, options)),
    cancel: (tasks) => timed("cancel", () => store.cancel(tasks)),
    retry: (tasks) => timed("retry", () => store.retry(tasks)),
    delete: (tasks) => timed("delete", () => store.delete(tasks)),
    get: (task) => timed("get", () => store.get(task)),
    list: (query) => timed("list", () => store.list(query)),
    counts: (namespace) => timed("counts", () => store.counts(namespace)),
    ...(store.dueKinds && { dueKinds: store.dueKinds.bind(store) }),
    ...(store.blockedKeys && { blockedKeys: store.blockedKeys.bind(store) }),
    results: (tasks, options) => timed("results", () => store.results(tasks, options)),
    watchResults: (namespace, options) => store.watchResults(namespace, options),
    stats: (query) => timed("stats", () => store.stats(query)),
    leases: (query) => timed("leases", () => store.leases(query)),
    reap: () => store.reap(),
    collect: (limit) => store.collect(limit),
    watch: (namespace, options) => store.watch(namespace, options),
    close: () => store.close(),
  };
}
