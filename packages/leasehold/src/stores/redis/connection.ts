/**
 * One connection, opened by the first call that needs it and anew by the first after it was lost.
 *
 *   none ──call──▶ opening ──▶ open ──▶ calls, several at a time, answered in order
 *     ▲               │          │
 *     └── refused ◀───┴── lost ◀─┘   what was under way: nobody knows; what was not sent: not applied
 *
 * Nothing is sent after its caller has given up. A connection on which an answer has been due for a
 * while is given up too: behind a cut network it would never come.
 */

import { ClosedError, StoreUnavailableError } from "../../core/index.js";
import { type Env, withTimeout } from "../../env/index.js";
import type { RedisConnection } from "./connection-driver.js";
import { isReadOnly, isRefusal, storeError } from "./failures.js";

export type Argument = string | Uint8Array | number;

/** Until a connection stands, greeting included. */
const OPEN_TIMEOUT_MS = 5_000;
/** An answer that has been due for so long will not come. */
const SILENCE_MS = 1_000;

export class Connection {
  #opening: Promise<RedisConnection> | undefined;
  #client: RedisConnection | undefined;
  #closed = false;
  /** When the calls that have no answer yet were sent; the eldest first. */
  readonly #unanswered = new Set<{ readonly sentMs: number }>();

  constructor(
    readonly name: string,
    readonly env: Env,
    readonly make: () => RedisConnection,
    /** Called with each connection that stands, before it is used. */
    readonly onOpen: (client: RedisConnection) => void = () => {},
  ) {}

  /** Rejects with a LeaseholdError whose `outcome` says whether the command may have taken effect. */
  async call(deadlineMs: number, command: string, ...args: Argument[]): Promise<unknown> {
    const client = await this.open(deadlineMs);
    return this.send(client, deadlineMs, (open) => open.call(command, ...args));
  }

  /** The open connection, for commands that must follow each other at once. */
  open(deadlineMs: number): Promise<RedisConnection> {
    if (this.#closed) return Promise.reject(new ClosedError(this.name));
    if (this.#client?.status === "ready") return Promise.resolve(this.#client);
    this.#opening ??= this.#open().finally(() => {
      this.#opening = undefined;
    });
    return this.#inTime(this.#opening, deadlineMs, "no connection", "none");
  }

  /** @param command sends at once, or throws */
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

  /** Ends a connection at once: the next call opens another one. */
  drop(client: RedisConnection): void {
    if (this.#client === client) this.#client = undefined;
    client.disconnect();
    // Its end is not waited for: the other side may be gone.
    streamOf(client)?.destroy?.();
  }

  close(): void {
    this.#closed = true;
    if (this.#client) this.drop(this.#client);
  }

  async #open(): Promise<RedisConnection> {
    const client = this.make();
    let problem: Error | undefined;
    const forget = () => {
      if (this.#client === client) this.#client = undefined;
    };
    client.on("error", (error: Error) => {
      problem ??= error;
    });
    // An idle connection keeps no process alive that has nothing else to do; a call does by its timer.
    client.on("connect", () => streamOf(client)?.unref?.());
    client.on("end", forget);
    const connecting = client.connect();
    const giveUpAtMs = this.env.clock.monotonic() + OPEN_TIMEOUT_MS;
    try {
      await this.#inTime(connecting, giveUpAtMs, "no connection", "none");
      // ioredis takes a connection for good whose database the server has refused.
      if (isRefusal(problem)) throw problem;
    } catch (error) {
      this.drop(client);
      throw storeError(problem ?? error, false);
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

/** ioredis shows the socket beneath, though its types do not promise it. */
function streamOf(client: RedisConnection): { unref?(): void; destroy?(): void } | undefined {
  return (client as { stream?: { unref?(): void; destroy?(): void } }).stream;
}
