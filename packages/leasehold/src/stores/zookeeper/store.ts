/** Leases in ZooKeeper: the port over decisions and views of single locks. */

import type * as port from "../../core/index.js";
import { ClosedError, StoreUnavailableError } from "../../core/index.js";
import { Own } from "../../core/own.js";

import { type Env, SerialExecutor } from "../../env/index.js";
import type { Session } from "./connection-session.js";
import { Keeping, revoke } from "./decide.js";
import { Holding } from "./decide-acquire.js";
import { AGAIN, type Doubt } from "./decide-contenders.js";
import { failedOutcome, storeError, Unanswered } from "./failures.js";
import type { Paths } from "./keys.js";
import { idOf, type OwnGrant, type OwnGrants } from "./own-grants.js";
import { Talk } from "./transactions.js";
import { collect, listOf, viewOf } from "./views.js";
import { type OwnWaiter, readPosition, WaitQueue } from "./wait-queue.js";
import type { Watches } from "./watch.js";

const DEFAULT_TIMEOUT_MS = 5_000;
/** Timeout of lists and collections, which take several rounds. */
const READ_TIMEOUT_MS = 15_000;
/**
 * The fraction of a session that a lease may last; the rest covers touches that the leader does not
 * know yet.
 */
const LONGEST_TTL_RATIO = 3 / 4;
/** A client ends its own grants. The grants of a dead client expire with its session. */
const EPSILON_MS = 1_000;

/** The current connection, and one sync shared by concurrent requests. */
type Talks = () => Promise<Talk>;

export class ZooKeeperLeaseStore implements port.LeaseStore {
  readonly capabilities: port.Capabilities;
  readonly #turns = new SerialExecutor();
  readonly #own: OwnGrants;
  readonly #waiters: Own<OwnWaiter>;
  readonly #watches: Watches;
  readonly #holding: Holding;
  readonly #keeping: Keeping;
  #closed = false;

  /**
   * @param sessionTimeoutMs the timeout granted by the servers
   */
  constructor(
    readonly session: Session,
    sessionTimeoutMs: number,
    readonly paths: Paths,
    readonly acls: unknown,
    readonly env: Env,
    watches: Watches,
  ) {
    this.capabilities = {
      clock: "session",
      grants: "bound",
      ttl: { minMs: 1, maxMs: Math.floor(sessionTimeoutMs * LONGEST_TTL_RATIO), stepMs: 1 },
      queue: true,
      watch: "push",
      epsilonMs: EPSILON_MS,
    };
    this.#watches = watches;
    this.#own = new Own<OwnGrant>(env.clock, this.#turns, ({ id, grant }) =>
      this.#whileLinked((talk, doubt) => this.#keeping.end(talk, id, grant, "expired", doubt)),
    );
    this.#waiters = new Own<OwnWaiter>(env.clock, this.#turns, ({ id, grant }) =>
      this.#whileLinked(async (talk) => {
        const [, position] = await Promise.all([talk.sync(), readPosition(talk, grant)]);
        await queue.withdraw(talk, id, grant, position);
      }),
    );
    const queue = new WaitQueue(env.clock, this.#waiters, watches);
    this.#holding = new Holding(env.clock, this.#own, queue);
    this.#keeping = new Keeping(env.clock, this.#own, queue);
  }

  /** Called when a connection opens. */
  onLink(): void {
    this.#own.hurry();
    this.#waiters.hurry();
  }

  acquire(
    requests: readonly port.AcquireRequest[],
    options?: port.CallOptions,
  ): Promise<port.AcquireOutcome[]> {
    return this.#each<port.AcquireRequest, port.AcquireOutcome>(requests, options, (request, at) =>
      this.#inTurn(request, at, (talk, id, doubt) =>
        this.#holding.acquire(talk, id, request, doubt),
      ),
    );
  }

  renew(
    requests: readonly port.RenewRequest[],
    options?: port.CallOptions,
  ): Promise<port.RenewOutcome[]> {
    return this.#each<port.RenewRequest, port.RenewOutcome>(requests, options, (request, at) =>
      this.#inTurn(request, at, (talk, id, doubt) => this.#keeping.renew(talk, id, request, doubt)),
    );
  }

  release(
    requests: readonly port.ReleaseRequest[],
    options?: port.CallOptions,
  ): Promise<port.ReleaseOutcome[]> {
    return this.#each<port.ReleaseRequest, port.ReleaseOutcome>(requests, options, (request, at) =>
      this.#inTurn(request, at, (talk, id, doubt) =>
        this.#keeping.end(talk, id, request, "released", doubt),
      ),
    );
  }

  revoke(
    requests: readonly port.RevokeRequest[],
    options?: port.CallOptions,
  ): Promise<port.RevokeOutcome[]> {
    return this.#each<port.RevokeRequest, port.RevokeOutcome>(requests, options, (request, at) =>
      this.#settle(at.talks, at.deadlineMs, (talk, doubt) => revoke(talk, request, doubt), true),
    );
  }

  async get(keys: readonly port.Key[]): Promise<(port.LeaseView | null)[]> {
    return this.#read((talk) => Promise.all(keys.map((key) => viewOf(talk, key))));
  }

  async list(query: port.ListQuery): Promise<port.Page<port.LeaseView>> {
    return this.#read((talk) => listOf(talk, query));
  }

  async *watch(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<port.WatchEvent, void, void> {
    if (this.#closed) throw new ClosedError("the store");
    yield* this.#watches.follow(namespace, signal);
  }

  async collect(olderThanMs: number): Promise<number> {
    try {
      return await collect(() => this.#talks(this.#deadline(READ_TIMEOUT_MS))(), olderThanMs);
    } catch (error) {
      throw storeError(error, true);
    }
  }

  /** Ends the session, which frees this client's leases at once if there is a connection. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#own.close();
    this.#waiters.close();
    this.#watches.end();
    await this.session.close();
  }

  /** Without a connection there is nothing to do: onLink() runs on the next one. */
  async #whileLinked<T>(work: (talk: Talk, doubt: Doubt) => Promise<T>): Promise<void> {
    if (!this.session.isLinked) return;
    const deadlineMs = this.#deadline();
    await this.#settle(this.#talks(deadlineMs), deadlineMs, work);
  }

  #deadline(timeoutMs = DEFAULT_TIMEOUT_MS): number {
    return this.env.clock.monotonic() + timeoutMs;
  }

  #talks(deadlineMs: number): Talks {
    let talk: Talk | undefined;
    return async () => {
      const link = await this.session.link(deadlineMs);
      if (talk?.link !== link) talk = new Talk(link, deadlineMs, this.paths, this.acls);
      return talk;
    };
  }

  async #read<T>(work: (talk: Talk) => Promise<T>): Promise<T> {
    const deadlineMs = this.#deadline(READ_TIMEOUT_MS);
    const talks = this.#talks(deadlineMs);
    for (;;) {
      try {
        return await work(await talks());
      } catch (error) {
        const again = error instanceof Unanswered && this.env.clock.monotonic() < deadlineMs;
        if (!again) throw storeError(error, false);
      }
    }
  }

  /** Processes different locks concurrently, and requests for one lock in order. */
  async #each<Request extends port.Key, Outcome>(
    requests: readonly Request[],
    { timeoutMs = DEFAULT_TIMEOUT_MS }: port.CallOptions = {},
    decide: (
      request: Request,
      at: { talks: Talks; deadlineMs: number },
    ) => Promise<Outcome | port.Failed>,
  ): Promise<Outcome[]> {
    const deadlineMs = this.#deadline(timeoutMs);
    const at = { deadlineMs, talks: this.#talks(deadlineMs) };
    const locks = new SerialExecutor();
    const outcomes = requests.map((request) =>
      locks.run(this.paths.lock(request), () => decide(request, at)),
    );
    return (await Promise.all(outcomes)) as Outcome[];
  }

  /** Waits for requests in flight for the same grant; starts nothing after the caller has given up. */
  async #inTurn<Outcome>(
    request: port.ReleaseRequest,
    { talks, deadlineMs }: { talks: Talks; deadlineMs: number },
    work: (talk: Talk, id: string, doubt: Doubt) => Promise<Outcome | typeof AGAIN>,
  ): Promise<Outcome | port.Failed> {
    const id = idOf(this.paths, request, request.leaseId);
    const settled = await this.#own.inTurn(id, deadlineMs, () =>
      this.#settle(talks, deadlineMs, (talk, doubt) => work(talk, id, doubt)),
    );
    if (settled) return settled;
    const busy = "not sent: another request for the same grant was in flight until the timeout";
    return failedOutcome(new StoreUnavailableError(busy, { outcome: "none" }), false);
  }

  /** Runs one request within its time, over several connections if needed. */
  async #settle<Outcome>(
    talks: Talks,
    deadlineMs: number,
    work: (talk: Talk, doubt: Doubt) => Promise<Outcome | typeof AGAIN>,
    once = false,
  ): Promise<Outcome | port.Failed> {
    const doubt: Doubt = { unknown: false, careful: false };
    for (;;) {
      try {
        const outcome = await work(await talks(), doubt);
        if (outcome !== AGAIN) return outcome;
      } catch (error) {
        const over = this.env.clock.monotonic() >= deadlineMs || (once && doubt.unknown);
        if (!(error instanceof Unanswered) || over) return failedOutcome(error, doubt.unknown);
        doubt.careful = true;
      }
    }
  }
}
