/**
 * The session of a client. It outlives its connections, and its ephemeral znodes live as long as it does.
 *
 *            connect             lost: next server, same session id
 *   (none) ──────────▶ linked ──────────▶ (unlinked) ──▶ linked     its znodes still exist
 *      ▲                                      │
 *      └───────── "that session has ended" ◀──┘    its znodes are gone: only the servers know
 *
 * Without a connection the client does not know whether its session lives. Calls wait for a connection
 * as long as their callers do, and holders trust their leases until their own deadlines.
 */

import { Backoff, type Env, sleep } from "../../env/index.js";
import { ClosedError, LeaseholdError, StoreMisconfiguredError } from "../../lease/index.js";
import { Link, SessionEnded, type SessionIdentity } from "./connection.js";
import type { Driver, Tls } from "./connection-driver.js";
import { isRefused, storeError, Unanswered } from "./failures.js";

export interface SessionOptions {
  readonly driver: Driver;
  readonly servers: readonly string[];
  readonly sessionTimeoutMs: number;
  readonly auth: string | undefined;
  /** Undefined without TLS. */
  readonly tls?: Tls | undefined;
  /** Closes the session, also while it is opened. */
  readonly givenUp?: AbortSignal;
}

const RECONNECT = { firstMs: 20, longestMs: 1_000 };
/**
 * Limits one attempt, so that one server leaves time for the others; a starting server may accept a
 * connection and not respond.
 */
const FIRST_CONNECT_MS = 500;
const LONGEST_CONNECT_MS = 4_000;

export class Session {
  #link: Link | null = null;
  #identity: SessionIdentity | null = null;
  /** The reason why there is no connection. */
  #problem: Error | null = null;
  /** Total number of failed attempts. */
  #failures = 0;
  readonly #waiting = new Set<() => void>();
  readonly #closing = new AbortController();
  readonly #running: Promise<void>;
  readonly #servers: readonly string[];

  private constructor(
    readonly options: SessionOptions,
    readonly env: Env,
    /** Called with each connection before its first use. */
    readonly onLink: () => void,
  ) {
    const { servers } = options;
    const first = Math.floor(env.random.float() * servers.length);
    this.#servers = [...servers.slice(first), ...servers.slice(0, first)];
    this.#running = this.#run();
  }

  /** Resolves once connected. @throws STORE_UNAVAILABLE, STORE_MISCONFIGURED */
  static async open(
    options: SessionOptions,
    env: Env,
    timeoutMs: number,
    onLink: () => void,
  ): Promise<Session> {
    const session = new Session(options, env, onLink);
    options.givenUp?.addEventListener("abort", () => void session.close(), { once: true });
    try {
      const deadlineMs = env.clock.monotonic() + timeoutMs;
      const { sessionTimeoutMs } = await session.link(deadlineMs, { patient: true });
      if (sessionTimeoutMs > options.sessionTimeoutMs) {
        throw new StoreMisconfiguredError(
          `the ensemble rejects sessions shorter than ${sessionTimeoutMs} ms (minSessionTimeout, by default 2 ticks): set sessionTimeoutMs to 3 ticks at least`,
        );
      }
      return session;
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  /** A name for messages, without the password. */
  get name(): string {
    return `ZooKeeper at ${this.options.servers.join(",")}`;
  }

  get isLinked(): boolean {
    return this.#link?.isOpen ?? false;
  }

  /**
   * Returns the connection.
   * @param options.patient keeps waiting if no server is reachable; default: throws
   * @throws ClosedError, StoreMisconfiguredError; StoreUnavailableError at the deadline
   */
  async link(deadlineMs: number, { patient = false } = {}): Promise<Link> {
    const { clock } = this.env;
    const before = this.#failures;
    for (;;) {
      if (this.#closing.signal.aborted) throw new ClosedError("the store");
      if (this.#link?.isOpen) return this.#link;
      const triedAll = this.#failures - before >= this.#servers.length;
      const problem = this.#problem;
      // Another server may have a certificate that has not expired.
      if (triedAll && problem instanceof LeaseholdError && !problem.retryable) throw problem;
      const leftMs = deadlineMs - clock.monotonic();
      if (leftMs <= 0 || (triedAll && !patient)) {
        const why = this.#problem?.message ?? "no response yet";
        throw storeError(new Unanswered(`no connection: ${why}`, false, this.#problem), false);
      }
      await new Promise<void>((resolve) => {
        const done = () => {
          timer.cancel();
          this.#waiting.delete(done);
          resolve();
        };
        const timer = clock.timer(leftMs, done);
        this.#waiting.add(done);
      });
    }
  }

  /** Ends the session, if there is a connection; otherwise the session times out. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#wake();
    await this.#link?.close();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { clock, random, logger } = this.env;
    const { signal } = this.#closing;
    const backoff = new Backoff(random, RECONNECT);
    let failures = 0;
    for (let tries = 0; !signal.aborted; tries += 1) {
      try {
        const link = await this.#connect(
          this.#servers[tries % this.#servers.length] ?? "",
          Math.min(FIRST_CONNECT_MS * 2 ** failures, LONGEST_CONNECT_MS),
        );
        failures = 0;
        backoff.reset();
        if (signal.aborted) return await link.close();
        [this.#link, this.#identity, this.#problem] = [link, link.identity, null];
        this.onLink();
        this.#wake();
        await link.ended;
        if (signal.aborted) return;
        logger.warn({ store: this.name }, "the connection was lost; reconnecting");
        continue;
      } catch (error) {
        if (error instanceof SessionEnded) {
          logger.warn({ store: this.name }, "the session has ended, with all its leases");
          this.#identity = null;
          continue;
        }
        this.#problem = isRefused(error) ? storeError(error, false) : (error as Error);
        this.#failures += 1;
        this.#wake();
      }
      failures += 1;
      await sleep(clock, backoff.nextMs(), { signal, background: true }).catch(() => {});
    }
  }

  #connect(server: string, withinMs: number): Promise<Link> {
    const { driver, sessionTimeoutMs, auth, tls } = this.options;
    const options = { server, identity: this.#identity, sessionTimeoutMs, auth, tls, withinMs };
    return Link.open(driver, options, this.env);
  }

  #wake(): void {
    for (const wake of this.#waiting) wake();
  }
}
