/**
 * One connection. The first call opens it, and the first call after a loss reopens it.
 *
 *   none ──call──▶ opening ──▶ open ──▶ calls, several at a time, replies in order
 *     ▲               │          │
 *     └── refused ◀───┴── lost ◀─┘   calls in flight: unknown; calls not sent: not applied
 *
 * The connection sends nothing after its caller has given up. It is closed if a reply is overdue:
 * behind a network partition the reply would never come.
 */

import { ClosedError, StoreUnavailableError } from "../../core/index.js";
import { type Env, withTimeout } from "../../env/index.js";
import type { RedisConnection } from "./connection-driver.js";
import { isReadOnly, isRefusal, storeError } from "./failures.js";

export type Argument = string | Uint8Array | number;

/** Timeout of connecting, including the handshake. */
const OPEN_TIMEOUT_MS = 5_000;
/** Age after which a missing reply counts as lost. */
const SILENCE_MS = 1_000;

export class Connection {
  #opening: Promise<RedisConnection> | undefined;
  #client: RedisConnection | undefined;
  /** Being opened. */
  #next: RedisConnection | undefined;
  #closed = false;
  /** When the unanswered calls were sent, oldest first. */
  readonly #unanswered = new Set<{ readonly sentMs: number }>();
  readonly #dropped = new WeakSet<RedisConnection>();

  constructor(
    readonly name: string,
    readonly env: Env,
    readonly make: () => RedisConnection,
    /** Called with each new connection before its first use. */
    readonly onOpen: (client: RedisConnection) => void = () => {},
  ) {}

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
    if (this.#closed) return Promise.reject(new ClosedError(this.name));
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
    if (sentMs >= deadlineMs || client.status !== "ready") throw this.#notSent();
    const call = { sentMs };
    this.#unanswered.add(call);
    const answer = command(client).finally(() => this.#unanswered.delete(call));
    try {
      return await this.#inTime(answer, deadlineMs, "no answer", "unknown", () => {
        const [eldest = call] = this.#unanswered;
        if (this.env.clock.monotonic() - eldest.sentMs >= SILENCE_MS) this.drop(client);
      });
    } catch (error) {
      if (isReadOnly(error)) this.drop(client);
      throw storeError(error, true);
    }
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
    this.#closed = true;
    for (const client of [this.#client, this.#next]) if (client) this.drop(client);
  }

  async #open(): Promise<RedisConnection> {
    const client = this.make();
    this.#next = client;
    let problem: Error | undefined;
    const forget = () => {
      if (this.#client === client) this.#client = undefined;
    };
    client.on("error", (error: Error) => {
      problem ??= error;
    });
    // An idle connection does not keep the process alive. A call in flight does, by its timer.
    client.on("connect", () => streamOf(client)?.unref?.());
    client.on("end", forget);
    const connecting = client.connect();
    const giveUpAtMs = this.env.clock.monotonic() + OPEN_TIMEOUT_MS;
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
    if (this.#closed) {
      this.drop(client);
      throw new ClosedError(this.name);
    }
    this.#client = client;
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
