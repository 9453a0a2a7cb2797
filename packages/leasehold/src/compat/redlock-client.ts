/** Opens a Leasehold client over the client that a `Redlock` is constructed with. No other file here opens one. */
import type { Logger } from "../env/index.js";
import { connect, type Source } from "../index.js";
import { ClosedError, InvalidOptionError } from "../lease/index.js";
import { type RedisClient, type RedisClusterClient, redis } from "../stores/redis/index.js";

/** The part of a lease that the locks use. */
export interface LockLease {
  readonly resource: string;
  /** Absent if the store has no fencing tokens. */
  readonly token?: number;
  readonly leaseId?: string;
  remainingMs(): number;
  renew(options: { ttlMs: number }): Promise<void>;
}

/** Leases on all resources of a lock. */
export interface LockLeases {
  readonly leases: readonly LockLease[];
  /** Aborts when any of the leases is lost. */
  readonly signal: AbortSignal;
  checkAlive(): boolean;
  release(): Promise<void>;
}

/** The part of a Leasehold client that the locks use. `connect()` returns such a client. */
export interface LockClient {
  acquireAll(
    resources: readonly string[],
    options: {
      ttlMs: number;
      waitMs: number;
      driftRatio: number;
      autoRenew: boolean;
      renewIntervalMs?: number;
    },
  ): Promise<LockLeases>;
  close(): Promise<void>;
}

/** The store of the locks: an ioredis client, a source as for `connect()`, or a client that `connect()` returned. */
export type Client = RedisClient | RedisClusterClient | Source | LockClient;

/**
 * Returns the only client of the list. Repetitions of one client count once.
 * @throws INVALID_OPTION if the list has no client, several, or an element of another type
 */
export function onlyClient(clients: Iterable<Client>): Client {
  const [client, ...others] = new Set(clients);
  if (client === undefined) throw new InvalidOptionError("clients", "must have one element");
  if (others.length > 0) {
    throw new InvalidOptionError(
      "clients",
      `must have one element, not ${others.length + 1}: Leasehold does not lock on a majority of independent ` +
        "servers; its fencing tokens also protect where a majority cannot. Pass the client of one server, " +
        "cluster or Sentinel group, and check lock.tokens where you write",
    );
  }
  if (!isSource(client) && !isLockClient(client) && !("options" in client)) {
    throw new InvalidOptionError(
      "clients",
      "must have an ioredis client, a URL or a source, or a client of connect(), as its element",
    );
  }
  return client;
}

/** Opens the client at the first call, and closes it. After a failed attempt, the next call tries again. */
export class Connection {
  readonly #client: Client;
  readonly #logger: Logger;
  #opening: Promise<LockClient> | undefined;
  #quitting: Promise<void> | undefined;

  constructor(client: Client, logger: Logger) {
    this.#client = client;
    this.#logger = logger;
  }

  /** @throws CLOSED after `quit()`, and the errors of `connect()` */
  open(): Promise<LockClient> {
    if (this.#quitting) return Promise.reject(new ClosedError("this Redlock"));
    this.#opening ??= open(this.#client, this.#logger).catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  /**
   * Releases all locks and disconnects, including the ioredis client that was passed in. Repeated calls
   * return the same promise.
   */
  quit(): Promise<void> {
    this.#quitting ??= this.#quit();
    return this.#quitting;
  }

  async #quit(): Promise<void> {
    const opened = await this.#opening?.catch(() => undefined);
    await opened?.close();
    const client = this.#client;
    if (isLockClient(client)) await client.close();
    else if (hasQuit(client)) await client.quit();
  }
}

async function open(client: Client, logger: Logger): Promise<LockClient> {
  if (isLockClient(client)) return client;
  // A source with `format: "redlock"` shares its locks with node-redlock; such locks have no tokens.
  return connect(isSource(client) ? client : redis({ client }), { logger, unfenced: true });
}

function isSource(client: Client): client is Source {
  return typeof client === "string" || client instanceof URL || "open" in client;
}

function isLockClient(client: Client): client is LockClient {
  return typeof client === "object" && "acquireAll" in client;
}

function hasQuit(client: unknown): client is { quit(): Promise<unknown> } {
  return typeof client === "object" && client !== null && "quit" in client;
}
