/** Leases in ZooKeeper: the port over decisions and views of single locks. */

import { type Env, SerialExecutor } from "../../env/index.js";
import type * as port from "../../lease/index.js";
import { ClosedError, StoreUnavailableError } from "../../lease/index.js";
import { Own } from "../../store-kit/own.js";
import type { Session } from "./connection-session.js";
import { AGAIN, type Again, Deciding, revoke } from "./decide.js";
import { failedOutcome, storeError, Unanswered } from "./failures.js";
import type { Paths } from "./keys.js";
import { idOf, type OwnGrant, type OwnGrants } from "./own-grants.js";
import { type Call, type Doubt, Talk } from "./transactions.js";
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
  readonly #deciding: Deciding;
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
      this.#whileLinked(id, (call) => this.#deciding.end(call, grant, "expired")),
    );
    this.#waiters = new Own<OwnWaiter>(env.clock, this.#turns, ({ id, grant }) =>
      this.#whileLinked(id, async ({ talk }) => {
        const [, position] = await Promise.all([talk.sync(), readPosition(talk, grant)]);
        await queue.withdraw(talk, id, grant, position);
      }),
    );
    const queue = new WaitQueue(env.clock, this.#waiters, watches);
    this.#deciding = new Deciding(env.clock, this.#own, queue);
  }

  /** Called when a connection opens. */
  onLink(): void {
    this.#own.hurry();
    this.#waiters.hurry();
  }

  readonly acquire: port.LeaseStore["acquire"] = this.#each((call, request: port.AcquireRequest) =>
    this.#deciding.acquire(call, request),
  );
  readonly renew: port.LeaseStore["renew"] = this.#each((call, request: port.RenewRequest) =>
    this.#deciding.renew(call, request),
  );
  readonly release: port.LeaseStore["release"] = this.#each((call, request: port.ReleaseRequest) =>
    this.#deciding.end(call, request, "released"),
  );
  readonly revoke: port.LeaseStore["revoke"] = this.#each(revoke);

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
  async #whileLinked<T>(id: string, work: (call: Call) => Promise<T>): Promise<void> {
    if (!this.session.isLinked) return;
    const deadlineMs = this.#deadline();
    await this.#settle(this.#talks(deadlineMs), deadlineMs, id, work);
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
  #each<Asked extends port.Key & { readonly leaseId?: string }, Outcome>(
    decide: (call: Call, request: Asked) => Promise<Outcome | Again>,
  ) {
    return (
      requests: readonly Asked[],
      { timeoutMs = DEFAULT_TIMEOUT_MS }: port.CallOptions = {},
    ): Promise<(Outcome | port.Failed)[]> => {
      const deadlineMs = this.#deadline(timeoutMs);
      const talks = this.#talks(deadlineMs);
      const locks = new SerialExecutor();
      const outcomes = requests.map((request) =>
        locks.run(this.paths.lock(request), () => this.#inTurn(talks, deadlineMs, request, decide)),
      );
      return Promise.all(outcomes);
    };
  }

  /** Waits for requests in flight for the same grant; starts nothing after the caller has given up. */
  async #inTurn<Asked extends port.Key & { readonly leaseId?: string }, Outcome>(
    talks: Talks,
    deadlineMs: number,
    request: Asked,
    decide: (call: Call, request: Asked) => Promise<Outcome | Again>,
  ): Promise<Outcome | port.Failed> {
    const { leaseId } = request;
    const work = (call: Call) => decide(call, request);
    // Not repeated after a lost response: that of an operator could end the next grant.
    if (leaseId === undefined) return this.#settle(talks, deadlineMs, "", work, true);
    const id = idOf(this.paths, request, leaseId);
    const settled = await this.#own.inTurn(id, deadlineMs, () =>
      this.#settle(talks, deadlineMs, id, work),
    );
    if (settled) return settled;
    const busy = "not sent: another request for the same grant was in flight until the timeout";
    return failedOutcome(new StoreUnavailableError(busy, { outcome: "none" }), false);
  }

  /** Runs one request within its time, over several connections if needed. */
  async #settle<Outcome>(
    talks: Talks,
    deadlineMs: number,
    id: string,
    work: (call: Call) => Promise<Outcome | Again>,
    once = false,
  ): Promise<Outcome | port.Failed> {
    const doubt: Doubt = { unknown: false, careful: false };
    for (;;) {
      try {
        const outcome = await work({ talk: await talks(), id, doubt });
        if (outcome !== AGAIN) return outcome;
      } catch (error) {
        const over = this.env.clock.monotonic() >= deadlineMs || (once && doubt.unknown);
        if (!(error instanceof Unanswered) || over) return failedOutcome(error, doubt.unknown);
        doubt.careful = true;
      }
    }
  }
}
