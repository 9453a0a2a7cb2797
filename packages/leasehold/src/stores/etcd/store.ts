/**
 * Leases in etcd: the port. Requests become decisions over the state read, and decisions become
 * transactions.
 */
import type * as port from "../../core/index.js";
import { decideAcquire, grantText, inRounds, longest, oncePerGrant } from "../../core/index.js";
import type { EtcdClient } from "./connection.js";
import { release, renew, revoke } from "./decide.js";
import { acquire } from "./decide-acquire.js";
import type { EngineLeases } from "./engine-leases.js";
import { withStoreErrors } from "./failures.js";
import { Place } from "./keys.js";
import { deadlineOf, type Rules, Transactor } from "./transactions.js";
import { Views } from "./views.js";
import { Watches } from "./watch.js";

/**
 * How late a grant may be freed: an engine lease outlives its reported end by up to a second, and etcd
 * checks for expired ones twice a second, later on a busy machine.
 */
const EPSILON_MS = 2_000;
/** Of client and server together, measured by gRPC. A transaction has to be agreed on and synced to disk. */
const CALL_COST = 32;
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
  readonly #transactor: Transactor;
  readonly #views: Views;
  readonly #watches: Watches;

  constructor({ client, leases, prefix, minMs }: EtcdStoreOptions) {
    this.#client = client;
    this.#transactor = new Transactor(client, leases, prefix);
    this.#views = new Views(client, leases, this.#transactor, prefix);
    this.#watches = new Watches(client, prefix);
    this.capabilities = {
      clock: "session",
      grants: "portable",
      ttl: { minMs, maxMs: LONGEST_TTL_MS, stepMs: 1_000 },
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
    const rules = { decide: acquire, guess: true };
    return this.#send(requests, rules, options, decideAcquire);
  }

  renew(
    requests: readonly port.RenewRequest[],
    options?: port.CallOptions,
  ): Promise<port.RenewOutcome[]> {
    const rules = { decide: renew, guess: false };
    return oncePerGrant(
      requests,
      grantText,
      this.#settling(rules, options),
      longest(this.capabilities.ttl.stepMs),
    );
  }

  release(
    requests: readonly port.ReleaseRequest[],
    options?: port.CallOptions,
  ): Promise<port.ReleaseOutcome[]> {
    return this.#send(requests, { decide: release, guess: false }, options);
  }

  revoke(
    requests: readonly port.RevokeRequest[],
    options?: port.CallOptions,
  ): Promise<port.RevokeOutcome[]> {
    return this.#send(requests, { decide: revoke, guess: false }, options);
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

  #send<Request extends port.Key, Outcome extends { readonly status: string }>(
    requests: readonly Request[],
    rules: Rules<Request, Outcome>,
    options?: port.CallOptions,
    decideNext?: Parameters<typeof inRounds<Request, Outcome>>[3],
  ): Promise<(Outcome | port.Failed)[]> {
    return inRounds(requests, keyText, this.#settling(rules, options), decideNext);
  }

  #settling<Request extends port.Key, Outcome>(
    rules: Rules<Request, Outcome>,
    options?: port.CallOptions,
  ): (some: readonly Request[]) => Promise<(Outcome | port.Failed)[]> {
    const deadlineMs = deadlineOf(this.#client, options);
    return (some) => this.#transactor.settle(some, rules, deadlineMs);
  }
}

/** Unique per key. */
function keyText(key: port.Key): string {
  return new Place("", key).record;
}
