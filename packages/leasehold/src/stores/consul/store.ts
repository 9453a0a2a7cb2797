/** Leases in Consul: the port. The rules decide (store-kit/); lease-engine.ts reads and writes for them. */
import { zip } from "../../env/index.js";
import type * as port from "../../lease/index.js";
import { StoreUnavailableError } from "../../lease/index.js";
import {
  grantText,
  type LeaseOperations,
  longest,
  oncePerGrant,
  operationsOn,
} from "../../store-kit/index.js";
import { type ConsulClient, DEFAULT_TIMEOUT_MS } from "./connection.js";
import { transactionOf } from "./connection-api.js";
import { Sessions } from "./connection-session.js";
import { failedOutcome, withStoreErrors } from "./failures.js";
import { identityOf, placeOf, renewalsFolder } from "./keys.js";
import { leaseEngine, type Shared } from "./lease-engine.js";
import type { Purpose } from "./lease-load.js";
import { OwnGrants } from "./own-grants.js";
import { Transactor } from "./transactions.js";
import { Views } from "./views.js";
import { Watches } from "./watch.js";

/**
 * The fraction of a session's TTL that a lease may last: with the rest, one renewal of the session serves all
 * grants and renewals for a while.
 */
const LONGEST_TTL_RATIO = 3 / 4;
/** A client ends its own grants. The grants of a dead client end with its session. */
const EPSILON_MS = 1_000;

const BUSY = "not sent: an earlier grant of the same lease id was being ended until the timeout";

export class ConsulLeaseStore implements port.LeaseStore {
  readonly capabilities: port.Capabilities;
  readonly #client: ConsulClient;
  readonly #sessions: Sessions;
  readonly #own: OwnGrants;
  readonly #shared: Shared;
  readonly #views: Views;
  readonly #watches: Watches;
  #isAnnouncing = false;

  constructor(client: ConsulClient) {
    this.#client = client;
    const { sessionTtlMs } = client.connection;
    this.#sessions = new Sessions(client, () => this.#own.size > 0 || this.#watches.isFollowed);
    this.#own = new OwnGrants(client.connection, async (what, grant) => {
      const [outcome] = await this.#operations(what).release([grant]);
      return outcome;
    });
    const transactor = new Transactor(client);
    this.#shared = { transactor, sessions: this.#sessions, own: this.#own };
    this.#views = new Views(client, transactor, this.#own);
    this.#watches = new Watches(client, this.#sessions);
    this.capabilities = {
      clock: "session",
      grants: "bound",
      ttl: { minMs: 1, maxMs: Math.floor(sessionTtlMs * LONGEST_TTL_RATIO), stepMs: 1 },
      queue: true,
      watch: "push",
      epsilonMs: EPSILON_MS,
    };
  }

  acquire(
    requests: readonly port.AcquireRequest[],
    options?: port.CallOptions,
  ): Promise<port.AcquireOutcome[]> {
    const deadlineMs = this.#client.deadline(options?.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    const { acquire } = this.#operations("acquire", requests);
    const { clock } = this.#client.connection.env;
    return this.#besideEnds(requests, deadlineMs, (some) =>
      acquire(some, { ...options, timeoutMs: deadlineMs - clock.monotonic() }),
    );
  }

  renew(
    requests: readonly port.RenewRequest[],
    options?: port.CallOptions,
  ): Promise<port.RenewOutcome[]> {
    const nowMs = this.#client.connection.env.clock.monotonic();
    // Extended before they are sent: a grant that is being renewed does not end meanwhile.
    for (const request of requests) {
      this.#own.extend(request, nowMs, request.ttlMs, this.#wallText());
    }
    if (requests.length > 0) this.#announce();
    const { renew } = this.#operations("renew", requests);
    const { stepMs } = this.capabilities.ttl;
    // Extended by the longest of its renewals, a grant has more left than the others asked for.
    return oncePerGrant(requests, grantText, (some) => renew(some, options), longest(stepMs));
  }

  release(
    requests: readonly port.ReleaseRequest[],
    options?: port.CallOptions,
  ): Promise<port.ReleaseOutcome[]> {
    return this.#operations("release").release(requests, options);
  }

  revoke(
    requests: readonly port.RevokeRequest[],
    options?: port.CallOptions,
  ): Promise<port.RevokeOutcome[]> {
    return this.#operations("revoke").revoke(requests, options);
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

  /** Checks the permissions of sessions and keys, and that there is a leader. @throws LeaseholdError */
  async open(timeoutMs: number): Promise<void> {
    const deadlineMs = this.#client.deadline(timeoutMs);
    const session = await this.#sessions.take(0, deadlineMs);
    await this.#watches.makeMailbox(session, deadlineMs);
  }

  /** Ends the session, which frees this client's leases at once. */
  async close(): Promise<void> {
    this.#own.close();
    this.#watches.close();
    await this.#sessions.close();
    this.#client.close();
  }

  /**
   * Returns the operations of one call, which begins now.
   * @param lasting the session must last as long as these; none: it needs none
   */
  #operations(purpose: Purpose, lasting?: readonly { readonly ttlMs: number }[]): LeaseOperations {
    // No session is known to last longer; of a longer TTL the client promises less.
    const { maxMs } = this.capabilities.ttl;
    const ttlMs = lasting && Math.min(maxMs, Math.max(0, ...lasting.map(({ ttlMs }) => ttlMs)));
    const { clock } = this.#client.connection.env;
    const engine = leaseEngine(this.#shared, purpose, ttlMs ?? null);
    return operationsOn(engine, { textOf: () => null, clock, timeoutMs: DEFAULT_TIMEOUT_MS });
  }

  /**
   * An acquire of a lease id that this client knows does not overlap its end, which could find what the acquire makes. Any
   * other one was sent before the TTL of the known one began, so its promise is over when the end begins.
   */
  async #besideEnds(
    requests: readonly port.AcquireRequest[],
    deadlineMs: number,
    acquire: (some: readonly port.AcquireRequest[]) => Promise<port.AcquireOutcome[]>,
  ): Promise<port.AcquireOutcome[]> {
    const isKnown = (request: port.AcquireRequest) =>
      this.#own.get(request, identityOf(request.leaseId)) !== undefined;
    const known = new Set(requests.filter(isKnown));
    if (known.size === 0) return acquire(requests);
    // All requests for a key stay together, in their order.
    const keys = new Set(Array.from(known, keyText));
    const groups = Array.from(keys, (key) => requests.filter((one) => keyText(one) === key));
    const others = requests.filter((request) => !keys.has(keyText(request)));
    const answers = await Promise.all([
      acquire(others),
      ...groups.map(async (group) => {
        const grants = group.filter((request) => known.has(request));
        const outcomes = await this.#besideAll(grants, deadlineMs, () => acquire(group));
        const busy = new StoreUnavailableError(BUSY, { outcome: "none" });
        return outcomes ?? group.map(() => failedOutcome(busy));
      }),
    ]);
    const outcomes = new Map(zip([others, ...groups].flat(), answers.flat()));
    return requests.map((request) => outcomes.get(request) as port.AcquireOutcome);
  }

  /** In one order for all calls, so that two of them do not wait for each other. */
  #besideAll<T>(
    grants: readonly port.Grant[],
    deadlineMs: number,
    work: () => Promise<T>,
  ): Promise<T | null> {
    const byId = new Map(grants.map((grant) => [grant.leaseId, grant]));
    const sorted = [...byId.keys()].sort();
    return sorted.reduceRight<() => Promise<T | null>>(
      (next, id) => () => this.#own.beside(byId.get(id) as port.Grant, deadlineMs, next),
      work,
    )();
  }

  /** For people, and once for all leases: that this client renews. Nothing is decided by it. */
  #announce(): void {
    const session = this.#sessions.id;
    if (this.#isAnnouncing || session === null) return;
    this.#isAnnouncing = true;
    const key = renewalsFolder(this.#client.connection.prefix) + session;
    const operation = { verb: "lock", key, value: this.#wallText(), session } as const;
    this.#client
      .transaction(transactionOf([operation]), this.#client.deadline())
      .catch(() => {})
      .finally(() => {
        this.#isAnnouncing = false;
      });
  }

  #wallText(): string {
    return new Date(this.#client.connection.env.clock.wall()).toISOString();
  }
}

/** Unique per key. */
function keyText(key: port.Key): string {
  return placeOf("", key).folder;
}
