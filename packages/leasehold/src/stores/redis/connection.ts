/**
 * One connection. The first call opens it, and the first call after a loss reopens it.
 *
 *   none ──call──▶ opening ──▶ open ──▶ calls, several at a time, replies in order
 *     ▲               │          │
 *     ├── refused ◀───┴── lost ◀─┤   calls in flight: unknown; calls not sent: not applied
 *     └── backoff ◀────── left ◀─┘   by a reply such as READONLY; calls in flight get their replies
 *
 * The connection sends nothing after its caller has given up. It is closed if a reply is overdue:
 * behind a network partition the reply would never come.
 */

import { Backoff, type Env, sleep, withTimeout } from "../../env/index.js";
import { ClosedError, StoreUnavailableError } from "../../lease/index.js";
import type { RedisConnection } from "./connection-driver.js";
import { breaksConnection, failureIn, isRefusal, storeError } from "./failures.js";

export type Argument = string | Uint8Array | number;

/** Timeout of connecting, including the handshake. */
const OPEN_TIMEOUT_MS = 5_000;
/** Age after which a missing reply counts as lost. */
const SILENCE_MS = 1_000;
/** Between connections that are left: a server may be read-only, or load its data, for a while. */
const REOPEN = { firstMs: 25, longestMs: 1_000 };

export class Connection {
  #opening: Promise<RedisConnection> | undefined;
  #client: RedisConnection | undefined;
  /** Being opened. */
  #next: RedisConnection | undefined;
  readonly #closed = new AbortController();
  /** When the unanswered calls were sent, oldest first. */
  readonly #unanswered = new Set<{ readonly sentMs: number }>();
  readonly #dropped = new WeakSet<RedisConnection>();
  /** They close after their last reply. */
  readonly #left = new Set<RedisConnection>();
  readonly #backoff: Backoff;
  #openedMs = 0;
  #reopenAtMs = 0;

  constructor(
    readonly name: string,
    readonly env: Env,
    readonly make: () => RedisConnection,
    /** Called with each new connection before its first use. */
    readonly onOpen: (client: RedisConnection) => void = () => {},
    /** Called when a reply said that the server takes no writes, or none yet. */
    readonly onLeft: () => void = () => {},
  ) {
    this.#backoff = new Backoff(env.random, REOPEN);
  }

  /**
   * Sends one command. Rejects with a LeaseholdError whose `outcome` says whether the command may have
   * taken effect.
   */
  async call(deadlineMs: number, command: string, ...args: Argument[]): Promise<unknown> {
    const client = await this.open(deadlineMs);
    return this.send(client, deadlineMs, (open) => open.call(command, ...args));
  }

  /** Returns the open connection, for commands that must follow each other directly. */
  open(deadlineMs: number): Promise<RedisConnection> {
    if (this.#closed.signal.aborted) return Promise.reject(new ClosedError(this.name));
    if (this.#client?.status === "ready") return Promise.resolve(this.#client);
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    return this.#inTime(this.#opening, deadlineMs, "no connection", "none");
  }

  /**
   * @param command sends synchronously, or throws
   */
  async send<T>(
    client: RedisConnection,
    deadlineMs: number,
    command: (client: RedisConnection) => Promise<T>,
  ): Promise<T> {
    const sentMs = this.env.clock.monotonic();
    const isOpen = client.status === "ready" && !this.#left.has(client);
    if (sentMs >= deadlineMs || !isOpen) throw this.#notSent();
    const call = { sentMs };
    this.#unanswered.add(call);
    const answer = command(client).finally(() => this.#unanswered.delete(call));
    try {
      const reply = await this.#inTime(answer, deadlineMs, "no answer", "unknown", () => {
        const [eldest = call] = this.#unanswered;
        if (this.env.clock.monotonic() - eldest.sentMs >= SILENCE_MS) this.drop(client);
      });
      if (Array.isArray(reply)) for (const each of reply) this.#check(client, failureIn(each));
      return reply;
    } catch (error) {
      if (isRefusal(error)) this.#check(client, error.message);
      throw storeError(error, true);
    }
  }

  /** The next call opens another connection, after a backoff. */
  leave(client = this.#client): void {
    if (client === undefined || this.#client !== client) return;
    this.#client = undefined;
    this.#left.add(client);
    const nowMs = this.env.clock.monotonic();
    if (nowMs - this.#openedMs >= REOPEN.longestMs) this.#backoff.reset();
    this.#reopenAtMs = nowMs + this.#backoff.nextMs();
    // The server closes the connection after the replies to the calls in flight.
    const closing = client.call("quit").catch(() => {});
    void closing.then(() => {
      this.#left.delete(client);
      this.drop(client);
    });
    this.onLeft();
  }

  /** Closes a connection immediately; the next call opens another one. */
  drop(client: RedisConnection): void {
    if (this.#client === client) this.#client = undefined;
    // Each overdue call of a silent server drops it, and ioredis adds a listener to the socket each time.
    if (this.#dropped.has(client)) return;
    this.#dropped.add(client);
    client.disconnect();
    // Does not wait for the close: the server may be gone.
    streamOf(client)?.destroy?.();
  }

  close(): void {
    this.#closed.abort();
    for (const client of [this.#client, this.#next, ...this.#left]) if (client) this.drop(client);
  }

  /** @param failure an error message of the server, if there is one */
  #check(client: RedisConnection, failure: string | null): void {
    if (failure !== null && breaksConnection(failure)) this.leave(client);
  }

  async #open(): Promise<RedisConnection> {
    const { clock } = this.env;
    const pauseMs = this.#reopenAtMs - clock.monotonic();
    const { signal } = this.#closed;
    // Not a reason to keep the process alive; its callers have timers of their own.
    if (pauseMs > 0) await sleep(clock, pauseMs, { signal, background: true }).catch(() => {});
    if (signal.aborted) throw new ClosedError(this.name);
    const client = this.make();
    this.#next = client;
    let problem: Error | undefined;
    const forget = () => {
      if (this.#client === client) this.#client = undefined;
    };
    client.on("error", (error: Error) => {
      // The choice of a database fails for a wrong password too, and its failure may come first.
      if (!problem || problem.message.startsWith("NOAUTH")) problem = error;
    });
    // An idle connection does not keep the process alive. A call in flight does, by its timer.
    client.on("connect", () => streamOf(client)?.unref?.());
    client.on("end", forget);
    const connecting = client.connect();
    const giveUpAtMs = clock.monotonic() + OPEN_TIMEOUT_MS;
    try {
      await this.#inTime(connecting, giveUpAtMs, "no connection", "none");
      // ioredis accepts a connection whose database the server rejected.
      if (isRefusal(problem)) throw problem;
    } catch (error) {
      this.drop(client);
      throw storeError(problem ?? error, false);
    } finally {
      this.#next = undefined;
    }
    if (signal.aborted) {
      this.drop(client);
      throw new ClosedError(this.name);
    }
    this.#client = client;
    this.#openedMs = clock.monotonic();
    this.onOpen(client);
    return client;
  }

  #inTime<T>(
    promise: Promise<T>,
    deadlineMs: number,
    what: string,
    outcome: "none" | "unknown",
    onTimeout: () => void = () => {},
  ): Promise<T> {
    const leftMs = Math.max(0, deadlineMs - this.env.clock.monotonic());
    return withTimeout(this.env.clock, leftMs, promise, () => {
      onTimeout();
      const within = `within ${Math.round(leftMs)} ms`;
      throw new StoreUnavailableError(`${this.name}: ${what} ${within}`, { outcome });
    });
  }

  #notSent(): StoreUnavailableError {
    return new StoreUnavailableError(`${this.name}: the connection was lost before the call`, {
      outcome: "none",
    });
  }
}

/** ioredis exposes the underlying socket, although its types omit it. */
function streamOf(client: RedisConnection): { unref?(): void; destroy?(): void } | undefined {
  return (client as { stream?: { unref?(): void; destroy?(): void } }).stream;
}
