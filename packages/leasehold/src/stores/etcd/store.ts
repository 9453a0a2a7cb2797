/** Leases in etcd: the port, over what the engine loads and saves. */
import type * as port from "../../lease/index.js";
import { type LeaseOperations, operationsOn } from "../../store-kit/index.js";
import { DEFAULT_TIMEOUT_MS, type EtcdClient } from "./connection.js";
import type { EngineLeases } from "./engine-leases.js";
import { withStoreErrors } from "./failures.js";
import { EtcdEngine } from "./lease-engine.js";
import { Views } from "./views.js";
import { Watches } from "./watch.js";

/**
 * How late a grant may be freed: an engine lease outlives its reported end by up to a second, and etcd
 * checks for expired ones twice a second, later on a busy machine.
 */
const EPSILON_MS = 2_000;
/** Of client and server together, measured by gRPC. A transaction has to be agreed on and synced to disk. */
const CALL_COST = 32;
const STEP_MS = 1_000;
/** 24 days, in whole seconds. */
const LONGEST_TTL_MS = 2_147_483_000;

export interface EtcdStoreOptions {
  readonly client: EtcdClient;
  readonly leases: EngineLeases;
  /** Prefix of all keys. */
  readonly prefix: string;
  /** The shortest TTL that the server grants. */
  readonly minMs: number;
}

export class EtcdLeaseStore implements port.LeaseStore {
  readonly capabilities: port.Capabilities;
  readonly #client: EtcdClient;
  readonly #operations: LeaseOperations;
  readonly #views: Views;
  readonly #watches: Watches;

  constructor({ client, leases, prefix, minMs }: EtcdStoreOptions) {
    this.#client = client;
    const engine = new EtcdEngine(client, leases, prefix);
    this.#operations = operationsOn(engine, {
      clock: client.connection.env.clock,
      timeoutMs: DEFAULT_TIMEOUT_MS,
      textOf: () => null,
    });
    this.#views = new Views(client, leases, prefix, (place) => engine.forget(place));
    this.#watches = new Watches(client, prefix);
    this.capabilities = {
      clock: "session",
      grants: "portable",
      ttl: { minMs, maxMs: LONGEST_TTL_MS, stepMs: STEP_MS },
      queue: true,
      watch: "push",
      epsilonMs: EPSILON_MS,
      callCost: CALL_COST,
    };
  }

  acquire(
    requests: readonly port.AcquireRequest[],
    options?: port.CallOptions,
  ): Promise<port.AcquireOutcome[]> {
    return this.#operations.acquire(this.#inSteps(requests), options);
  }

  renew(
    requests: readonly port.RenewRequest[],
    options?: port.CallOptions,
  ): Promise<port.RenewOutcome[]> {
    return this.#operations.renew(this.#inSteps(requests), options);
  }

  release(
    requests: readonly port.ReleaseRequest[],
    options?: port.CallOptions,
  ): Promise<port.ReleaseOutcome[]> {
    return this.#operations.release(requests, options);
  }

  revoke(
    requests: readonly port.RevokeRequest[],
    options?: port.CallOptions,
  ): Promise<port.RevokeOutcome[]> {
    return this.#operations.revoke(requests, options);
  }

  get(keys: readonly port.Key[]): Promise<(port.LeaseView | null)[]> {
    return withStoreErrors(() => this.#views.get(keys));
  }

  list(query: port.ListQuery): Promise<port.Page<port.LeaseView>> {
    return withStoreErrors(() => this.#views.list(query));
  }

  watch(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<port.WatchEvent, void, void> {
    return this.#watches.follow(namespace, signal);
  }

  collect(olderThanMs: number): Promise<number> {
    return withStoreErrors(() => this.#views.collect(olderThanMs));
  }

  async close(): Promise<void> {
    this.#client.close();
    this.#watches.close();
  }

  /** Engine leases last for whole seconds, and for some at least. */
  #inSteps<Request extends { readonly ttlMs: number }>(requests: readonly Request[]): Request[] {
    const { minMs } = this.capabilities.ttl;
    return requests.map((request) => {
      const ttlMs = Math.max(minMs, Math.ceil(request.ttlMs / STEP_MS) * STEP_MS);
      return ttlMs === request.ttlMs ? request : { ...request, ttlMs };
    });
  }
}
