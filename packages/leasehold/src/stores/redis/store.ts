/** Leases in Redis: the port over scripts. lease-engine.ts has the operations on single leases, views.ts the rest. */
import type * as port from "../../lease/index.js";
import { ClosedError } from "../../lease/index.js";
import type { LeaseOperations } from "../../store-kit/index.js";
import { operationsByRules } from "./lease-engine.js";
import type { ScriptCalls } from "./scripts-call.js";
import { Views } from "./views.js";
import type { Waiting } from "./wait-queue.js";
import { watchNotifications } from "./watch.js";
import type { Notifications } from "./watch-connection.js";

export class RedisLeaseStore implements port.LeaseStore {
  readonly capabilities: port.Capabilities = {
    clock: "store",
    grants: "portable",
    ttl: { minMs: 100, maxMs: 2 ** 31 - 1, stepMs: 1 },
    queue: true,
    watch: "push",
    // A lease is free from the microsecond of its expiry; replies are rounded to milliseconds.
    epsilonMs: 1,
  };
  /**
   * Namespaces whose ended grants this client collects. Records of other namespaces expire by
   * themselves.
   */
  readonly namespaces = new Set<string>();
  readonly #closing = new AbortController();
  readonly #views: Views;
  readonly #operations: LeaseOperations;
  readonly renew: port.LeaseStore["renew"];
  readonly release: port.LeaseStore["release"];
  readonly revoke: port.LeaseStore["revoke"];

  constructor(
    readonly calls: ScriptCalls,
    readonly notifications: Notifications,
  ) {
    this.#views = new Views(calls);
    this.#operations = operationsByRules(calls, () => this.#assertOpen());
    ({ renew: this.renew, release: this.release, revoke: this.revoke } = this.#operations);
  }

  acquire(
    requests: readonly port.AcquireRequest[],
    options?: port.CallOptions,
  ): Promise<port.AcquireOutcome[]> {
    for (const { namespace } of requests) this.namespaces.add(namespace);
    return this.#operations.acquire(requests, options);
  }

  async get(keys: readonly port.Key[]): Promise<(port.LeaseView | null)[]> {
    this.#assertOpen();
    return this.#views.get(keys);
  }

  async list(query: port.ListQuery): Promise<port.Page<port.LeaseView>> {
    this.#assertOpen();
    return this.#views.list(query);
  }

  /** The head of the queue first. */
  async waiters(key: port.Key): Promise<Waiting[]> {
    this.#assertOpen();
    return this.#views.waiters(key);
  }

  async *watch(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<port.WatchEvent, void, void> {
    this.#assertOpen();
    const channel = this.calls.keys.channel(namespace);
    yield* watchNotifications(this.notifications, channel, namespace, [
      signal,
      this.#closing.signal,
    ]);
  }

  async collect(olderThanMs: number): Promise<number> {
    this.#assertOpen();
    let collected = 0;
    for (const namespace of this.namespaces) {
      collected += await this.#views.collect(namespace, olderThanMs);
    }
    return collected;
  }

  /** Rejects further calls and ends watches. The opener closes the connections. */
  async close(): Promise<void> {
    this.#closing.abort();
  }

  #assertOpen(): void {
    if (this.#closing.signal.aborted) throw new ClosedError("the Redis lease store");
  }
}
