/** From what a `Redlock` is constructed with to a Leasehold client: the one place that knows how to open one. */
import { ClosedError, InvalidOptionError } from "../core/index.js";
import type { Logger } from "../env/index.js";
import { connect, type Source } from "../index.js";
import { type RedisClient, type RedisClusterClient, redis } from "../stores/redis/index.js";

/** What the locks use of a lease. */
export interface LockLease {
  readonly resource: string;
  /** Absent where the store has no fencing tokens. */
  readonly token?: number;
  readonly leaseId?: string;
  remainingMs(): number;
  renew(options: { ttlMs: number }): Promise<void>;
}

/** Leases on all resources of a lock. */
export interface LockLeases {
  readonly leases: readonly LockLease[];
  /** Aborts when the first of them is lost. */
  readonly signal: AbortSignal;
  checkAlive(): boolean;
  release(): Promise<void>;
}

/** What the locks use of a client: what `connect()` returns has it. */
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

/** Where the locks are kept: your ioredis client, a source of `connect()`, or a client that it returned. */
export type Client = RedisClient | RedisClusterClient | Source | LockClient;

/**
 * The one client of the list.
 * @throws INVALID_OPTION for none, for several, and for something else
 */
export function onlyClient(clients: Iterable<Client>): Client {
  const [client, ...others] = new Set(clients);
  if (client === undefined) throw new InvalidOptionError("clients", "must have one element");
  if (others.length > 0) {
    throw new InvalidOptionError(
      "clients",
      `must have one element, not ${others.length + 1}: Leasehold asks no majority of independent servers, ` +
        "because fencing tokens protect what a majority cannot. Pass the client of one server, cluster or " +
        "Sentinel group, and check lock.tokens where you write (docs/compat-redlock.md)",
    );
  }
  if (!isSource(client) && !isLockClient(client) && !("options" in client)) {
    throw new InvalidOptionError("clients", "must have an ioredis client, a URL or a source in it");
  }
  return client;
}

/** Opens the client lazily, once, and closes it. A failed attempt is repeated by the next call. */
export class Connection {
  readonly #client: Client;
  readonly #logger: Logger;
  #opening: Promise<LockClient> | undefined;
  #quitting: Promise<void> | undefined;

  constructor(client: Client, logger: Logger) {
    this.#client = client;
    this.#logger = logger;
  }

  /** @throws CLOSED, and as `connect()` */
  open(): Promise<LockClient> {
    if (this.#quitting) return Promise.reject(new ClosedError("this Redlock"));
    this.#opening ??= open(this.#client, this.#logger).catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  /** Releases what is held and disconnects, the ioredis client included. The same promise each time. */
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
  // Locks beside those of node-redlock have no tokens (`format: "redlock"`).
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
