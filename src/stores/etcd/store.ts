/** Leases in etcd: requests to decisions over what is read, which become transactions. */
import {
  type AcquireOutcome,
  type AcquireRequest,
  type CallOptions,
  type Capabilities,
  decideAcquire,
  type Failed,
  inRounds,
  type Key,
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
  type WatchEvent,
} from "../../lease/index.js";
import type { EtcdClient } from "./client.js";
import { acquire, release, renew, revoke } from "./decide.js";
import { storeError } from "./failures.js";
import { placeOf } from "./keys.js";
import type { EngineLeases } from "./leases.js";
import { Records } from "./records.js";
import { deadlineOf, type Rules, Transactor } from "./transact.js";
import { Watches } from "./watch.js";

/**
 * An engine lease lasts for up to a second longer than is told of it, etcd looks for ended ones twice
 * a second, and on a busy machine later.
 */
const EPSILON_MS = 2_000;
/** 24 days, in whole seconds. */
const LONGEST_TTL_MS = 2_147_483_000;

export interface EtcdStoreOptions {
  readonly client: EtcdClient;
  readonly leases: EngineLeases;
  /** Stands before all keys. */
  readonly prefix: string;
  /** The shortest ttl that the server grants. */
  readonly minMs: number;
}

export class EtcdLeaseStore implements LeaseStore {
  readonly capabilities: Capabilities;
  readonly #client: EtcdClient;
  readonly #transactor: Transactor;
  readonly #records: Records;
  readonly #watches: Watches;

  constructor({ client, leases, prefix, minMs }: EtcdStoreOptions) {
    this.#client = client;
    this.#transactor = new Transactor(client, leases, prefix);
    this.#records = new Records(client, leases, this.#transactor, prefix);
    this.#watches = new Watches(client, prefix);
    this.capabilities = {
      clock: "session",
      grants: "portable",
      ttl: { minMs, maxMs: LONGEST_TTL_MS, stepMs: 1_000 },
      queue: true,
      watch: "push",
      epsilonMs: EPSILON_MS,
    };
  }

  acquire(requests: readonly AcquireRequest[], options?: CallOptions): Promise<AcquireOutcome[]> {
    const rules = { decide: acquire, guess: true, repeatable: false };
    return this.#send(requests, rules, options, decideAcquire);
  }

  renew(requests: readonly RenewRequest[], options?: CallOptions): Promise<RenewOutcome[]> {
    return this.#send(requests, { decide: renew, guess: false, repeatable: true }, options);
  }

  release(requests: readonly ReleaseRequest[], options?: CallOptions): Promise<ReleaseOutcome[]> {
    return this.#send(requests, { decide: release, guess: false, repeatable: true }, options);
  }

  /** Not repeated when its answer is lost: the next grant could be the one that it ends. */
  revoke(requests: readonly RevokeRequest[], options?: CallOptions): Promise<RevokeOutcome[]> {
    return this.#send(requests, { decide: revoke, guess: false, repeatable: false }, options);
  }

  get(keys: readonly Key[]): Promise<(LeaseView | null)[]> {
    return told(() => this.#records.get(keys));
  }

  list(query: ListQuery): Promise<Page<LeaseView>> {
    return told(() => this.#records.list(query));
  }

  watch(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<WatchEvent, void, void> {
    return this.#watches.follow(namespace, signal);
  }

  collect(olderThanMs: number): Promise<number> {
    return told(() => this.#records.collect(olderThanMs));
  }

  async close(): Promise<void> {
    this.#client.close();
    this.#watches.close();
  }

  #send<Request extends Key, Outcome extends { readonly status: string }>(
    requests: readonly Request[],
    rules: Rules<Request, Outcome>,
    options?: CallOptions,
    decideNext?: Parameters<typeof inRounds<Request, Outcome>>[3],
  ): Promise<(Outcome | Failed)[]> {
    const deadlineMs = deadlineOf(this.#client, options);
    const send = (round: readonly Request[]) => this.#transactor.settle(round, rules, deadlineMs);
    return inRounds(requests, keyText, send, decideNext);
  }
}

async function told<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw storeError(error);
  }
}

/** Different for different keys. */
function keyText(key: Key): string {
  return placeOf("", key).record;
}
