/** Leases in Consul: the port. Requests become decisions, and decisions become transactions. */
import type * as port from "../../core/index.js";
import {
  decideAcquire,
  grantText,
  inRounds,
  LONGEST_WAITER_MS,
  longest,
  oncePerGrant,
  StoreUnavailableError,
} from "../../core/index.js";
import { Own } from "../../core/own.js";
import { Sightings } from "../../core/sightings.js";
import { SerialExecutor, zip } from "../../env/index.js";
import { type ConsulClient, DEFAULT_TIMEOUT_MS } from "./connection.js";
import { transactionOf } from "./connection-api.js";
import { Sessions } from "./connection-session.js";
import { expire, release, renew, revoke, type Surroundings, withdraw } from "./decide.js";
import { acquire } from "./decide-acquire.js";
import { failedOutcome, withStoreErrors } from "./failures.js";
import { identityOf, type Place, placeOf, renewalsFolder } from "./keys.js";
import { isOver, type OwnGrant, type OwnGrants, ownId } from "./own-grants.js";
import { type Rules, Transactor } from "./transactions.js";
import { Views } from "./views.js";
import { Watches } from "./watch.js";

/**
 * The fraction of a session's TTL that a lease may last: with the rest, one renewal of the session serves all
 * grants and renewals for a while.
 */
const LONGEST_TTL_RATIO = 3 / 4;
/** A client ends its own grants. The grants of a dead client end with its session. */
const EPSILON_MS = 1_000;

/**
 * A request whose answer was lost may still be applied: an agent waits for a leader, and the leader for its log, up to
 * about 40 s.
 */
const LATEST_EFFECT_MS = 60_000;
const LATE_CHECK_MS = 5_000;

const DELAYED: port.AcquireOutcome = {
  status: "held",
  holder: "the lock-delay of a session that has ended",
  grantId: null,
  remainingMs: null,
};

const BUSY = "not sent: an earlier grant of the same lease id was being ended until the timeout";

export class ConsulLeaseStore implements port.LeaseStore {
  readonly capabilities: port.Capabilities;
  readonly #client: ConsulClient;
  readonly #sessions: Sessions;
  readonly #transactor: Transactor;
  readonly #views: Views;
  readonly #watches: Watches;
  readonly #grants: OwnGrants;
  readonly #waiters: OwnGrants;
  readonly #sightings = new Sightings();
  #isAnnouncing = false;

  constructor(client: ConsulClient) {
    this.#client = client;
    const { env, sessionTtlMs } = client.connection;
    const isNeeded = () => this.#grants.size + this.#waiters.size > 0 || this.#watches.isFollowed;
    this.#sessions = new Sessions(client, isNeeded);
    this.#transactor = new Transactor(client, (session) => this.#sessions.lost(session));
    const turns = new SerialExecutor();
    this.#grants = new Own(env.clock, turns, (one) => this.#end(this.#grants, one, expire));
    this.#waiters = new Own(env.clock, turns, (one) => this.#end(this.#waiters, one, withdraw));
    this.#views = new Views(client, this.#transactor, this.#grants);
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
    const rules = { decide: acquire, guess: true, delayed: DELAYED };
    const settle = this.#inTurns(this.#settling(rules, options, longestOf), options);
    return inRounds(requests, keyText, settle, decideAcquire);
  }

  renew(
    requests: readonly port.RenewRequest[],
    options?: port.CallOptions,
  ): Promise<port.RenewOutcome[]> {
    const nowMs = this.#client.connection.env.clock.monotonic();
    const settle = this.#settling({ decide: renew, guess: false }, options, longestOf);
    return oncePerGrant(
      requests,
      grantText,
      (some) => {
        // Extended before they are sent: a grant that is being renewed does not end meanwhile.
        for (const request of some) this.#extend(request, nowMs);
        if (some.length > 0) this.#announce();
        return inRounds(some, keyText, settle);
      },
      longest(this.capabilities.ttl.stepMs),
    );
  }

  release(
    requests: readonly port.ReleaseRequest[],
    options?: port.CallOptions,
  ): Promise<port.ReleaseOutcome[]> {
    const settle = this.#settling({ decide: release, guess: false }, options);
    return inRounds(requests, keyText, settle);
  }

  revoke(
    requests: readonly port.RevokeRequest[],
    options?: port.CallOptions,
  ): Promise<port.RevokeOutcome[]> {
    const settle = this.#settling({ decide: revoke, guess: false }, options);
    return inRounds(requests, keyText, settle);
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
    this.#grants.close();
    this.#waiters.close();
    this.#watches.close();
    await this.#sessions.close();
    this.#client.close();
  }

  #settling<Request extends port.Key, Outcome>(
    rules: Rules<Request, Outcome>,
    options: port.CallOptions = {},
    ttlOf?: (requests: readonly Request[]) => number,
  ): (some: readonly Request[]) => Promise<(Outcome | port.Failed)[]> {
    const deadlineMs = this.#client.deadline(options.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    const sentMs = this.#client.connection.env.clock.monotonic();
    return (some) => {
      const surroundings = () => this.#surroundings(sentMs, deadlineMs, ttlOf?.(some));
      return this.#transactor.settle(some, rules, surroundings, deadlineMs);
    };
  }

  /**
   * An acquire of a lease id that this client knows does not overlap its end, which could find what the acquire makes. Any
   * other one was sent before the TTL of the known one began, so its promise is over when the end begins.
   */
  #inTurns(
    settle: (
      some: readonly port.AcquireRequest[],
    ) => Promise<(port.AcquireOutcome | port.Failed)[]>,
    { timeoutMs = DEFAULT_TIMEOUT_MS }: port.CallOptions = {},
  ): typeof settle {
    const deadlineMs = this.#client.deadline(timeoutMs);
    const idOf = (request: port.AcquireRequest) =>
      ownId(placeOf(this.#client.connection.prefix, request), identityOf(request.leaseId));
    return async (some) => {
      const known = new Set(some.filter((request) => this.#grants.get(idOf(request))));
      if (known.size === 0) return settle(some);
      const others = some.filter((request) => !known.has(request));
      const [together, ...apart] = await Promise.all([
        settle(others),
        ...Array.from(known, async (request) => {
          const work = () => settle([request]);
          const [outcome] = (await this.#grants.inTurn(idOf(request), deadlineMs, work)) ?? [];
          return outcome ?? failedOutcome(new StoreUnavailableError(BUSY, { outcome: "none" }));
        }),
      ]);
      const outcomes = new Map(zip([...others, ...known], [...together, ...apart]));
      return some.map((request) => outcomes.get(request) as port.AcquireOutcome | port.Failed);
    };
  }

  /** @param ttlMs how long the session must last; undefined if none is needed */
  async #surroundings(
    sentMs: number,
    deadlineMs: number,
    ttlMs: number | undefined,
  ): Promise<Surroundings> {
    this.#client.checkOpen();
    // No session is known to last longer; of a longer TTL the client promises less.
    const neededMs = Math.min(ttlMs ?? 0, this.capabilities.ttl.maxMs);
    if (ttlMs !== undefined) await this.#sessions.take(neededMs, deadlineMs);
    const { clock } = this.#client.connection.env;
    return {
      session: this.#sessions.id ?? "",
      sentMs,
      monotonicMs: () => clock.monotonic(),
      wallText: () => this.#wallText(),
      sessionMs: () => this.#sessions.lastsUntilMs - sentMs,
      own: (place, identity) => this.#grants.get(ownId(place, identity)),
      granted: (place, grant, untilMs) => {
        const one = ownOf(place, grant, untilMs);
        const known = this.#grants.get(one.id);
        // A renewal may have promised more before this request was answered.
        if (known && !known.isEnding) one.untilMs = Math.max(untilMs, known.untilMs);
        this.#grants.put(one);
        this.#waiters.forget(one.id);
      },
      doubted: (place, grant, untilMs) => {
        const one = ownOf(place, grant, untilMs, clock.monotonic() + LATEST_EFFECT_MS);
        const known = this.#grants.get(one.id);
        // A repetition of this request may have been answered.
        if (known?.lateUntilMs === null) return;
        // Its end may still take effect, on what this request has found made already.
        one.isEnding = known?.isEnding ?? false;
        this.#grants.put(one);
      },
      forget: (place, { leaseId }) => {
        const id = ownId(place, identityOf(leaseId));
        // An end that is under way forgets it: before, it could end a new grant of the same lease id.
        if (!this.#grants.get(id)?.isEnding) this.#grants.forget(id);
      },
      waits: (place, grant, queueMs) => {
        const untilMs = clock.monotonic() + Math.min(queueMs, LONGEST_WAITER_MS);
        const one = ownOf(place, grant, untilMs);
        const known = this.#waiters.get(one.id);
        if (known) known.untilMs = Math.max(known.untilMs, untilMs);
        else this.#waiters.put(one);
      },
      freeForMs: ({ folder }, { recordIndex }) =>
        this.#sightings.freeForMs(folder, recordIndex, 0, clock.monotonic()),
      seen: ({ folder }, { owner }) => {
        if (owner) this.#sightings.taken(folder);
      },
    };
  }

  /** Unless the grant has expired. */
  #extend(request: port.RenewRequest, nowMs: number): void {
    const place = placeOf(this.#client.connection.prefix, request);
    const own = this.#grants.get(ownId(place, identityOf(request.leaseId)));
    if (!own || isOver(own, nowMs)) return;
    own.untilMs = Math.max(own.untilMs, nowMs + request.ttlMs);
    own.renewedAt = this.#wallText();
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

  /** Ends what is over, at most until the session has ended it. */
  async #end(
    all: OwnGrants,
    one: OwnGrant,
    decide: Rules<port.Grant, port.ReleaseOutcome>["decide"],
  ): Promise<void> {
    one.isEnding = true;
    const [outcome] = await this.#settling({ decide, guess: false })([one.grant]);
    if (outcome?.status === "failed") throw outcome.error;
    const nowMs = this.#client.connection.env.clock.monotonic();
    const isEnded = outcome?.status === "released" || nowMs >= (one.lateUntilMs ?? 0);
    if (isEnded) all.forget(one.id);
    else one.untilMs = nowMs + LATE_CHECK_MS;
  }
}

function longestOf(requests: readonly { readonly ttlMs: number }[]): number {
  return Math.max(...requests.map(({ ttlMs }) => ttlMs));
}

function ownOf(
  place: Place,
  { namespace, resource, leaseId }: port.Grant,
  untilMs: number,
  lateUntilMs: number | null = null,
): OwnGrant {
  const id = ownId(place, identityOf(leaseId));
  return { id, grant: { namespace, resource, leaseId }, untilMs, lateUntilMs, isEnding: false };
}

/** Unique per key. */
function keyText(key: port.Key): string {
  return placeOf("", key).folder;
}
