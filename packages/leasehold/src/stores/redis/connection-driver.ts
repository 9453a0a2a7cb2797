/**
 * The interface to ioredis: the parts that the store uses, how it opens connections, and which features
 * it disables.
 */
import { checkNotPromise, InvalidOptionError } from "../../lease/index.js";
import { driverError, driverPart } from "../../store-kit/driver.js";
import { openTls, readTls } from "../../store-kit/tls-connections.js";
import type { Address, RedisAddress } from "./connection-address.js";

/** One ioredis connection. */
export interface RedisConnection {
  readonly status: string;
  connect(): Promise<unknown>;
  disconnect(): void;
  call(command: string, ...args: (string | Uint8Array | number)[]): Promise<unknown>;
  subscribe(...channels: string[]): Promise<unknown>;
  unsubscribe(...channels: string[]): Promise<unknown>;
  on(event: string, listener: (...args: never[]) => void): unknown;
}

/**
 * The parts of an ioredis client that the store needs: `new Redis(...)` fits. The store uses its
 * settings, not its connection.
 */
export interface RedisClient {
  readonly options: { readonly keyPrefix?: string | undefined };
  duplicate(override?: object): RedisConnection;
}

/** The parts of a cluster client that the store needs: `new Cluster(...)` fits. */
export interface RedisClusterClient {
  readonly isCluster: boolean;
  readonly options: { readonly keyPrefix?: string | undefined; readonly natMap?: unknown };
  nodes(role?: "all"): readonly RedisClient[];
}

/**
 * Disables ioredis's offline queue, retries and reconnects. By the time a queued command would run, the
 * caller knows its outcome as unknown and has retried or given up. The next call opens a new connection
 * after one is lost. Replies are raw, without prefixes and conversions.
 */
const OPTIONS = {
  lazyConnect: true,
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  autoResubscribe: false,
  retryStrategy: () => null,
  reconnectOnError: null,
  enableReadyCheck: true,
  enableAutoPipelining: false,
  // Also bounds the handshake, which follows the connect.
  commandTimeout: 10_000,
  connectTimeout: 5_000,
  keepAlive: 10_000,
  // The store destroys the socket itself; a timer for it would keep the process alive.
  disconnectTimeout: 0,
  keyPrefix: "",
  readOnly: false,
  protocol: 2,
  replyMapping: "legacy",
  stringNumbers: false,
} as const;

/** Opens connections. */
export interface Driver {
  /** For error messages: without secrets. */
  readonly name: string;
  /** Prefix of every key and channel. */
  readonly prefix: string;
  /** The servers to connect to first; none if the driver knows where. */
  readonly seeds: readonly Address[];
  /** Returns a client that is not connected yet. Default: to the server in its settings. */
  open(address?: Address): RedisConnection;
}

async function importDriver() {
  try {
    return await import("ioredis");
  } catch (error) {
    throw driverError("ioredis", error);
  }
}

/** @throws STORE_MISCONFIGURED */
export async function driverByAddress(address: RedisAddress): Promise<Driver> {
  const { hosts, sentinel, username, password, database } = address;
  // ioredis makes a context for each connection, and a mistake in the files would look like an outage.
  await openTls(undefined, address.tls, "Redis");
  const tls = address.tls && (await readTls(address.tls, "Redis"));
  const Redis = driverPart("ioredis", (await importDriver()).Redis);
  const options = {
    connectionName: "leasehold",
    ...(username && { username }),
    ...(password && { password }),
    ...(tls && { tls }),
    db: database,
  };
  const names = hosts.map(({ host, port }) => `${host}:${port}`).join(",");
  if (sentinel === null) {
    return {
      name: `Redis at ${names}`,
      prefix: "",
      seeds: hosts,
      open: (at) => new Redis({ ...options, ...(at ?? hosts[0]), ...OPTIONS }),
    };
  }
  const shareMs = Math.floor(OPTIONS.connectTimeout / (hosts.length + 1));
  const bySentinel = {
    name: sentinel.name,
    sentinels: [...hosts],
    role: "master" as const,
    ...(sentinel.username !== null && { sentinelUsername: sentinel.username }),
    ...(sentinel.password !== null && { sentinelPassword: sentinel.password }),
    ...(tls && { sentinelTLS: tls, enableTLSForSentinelMode: true }),
    // The next call asks again. Sentinels that do not answer leave time for the others and for the primary.
    sentinelRetryStrategy: () => null,
    connectTimeout: shareMs,
    sentinelCommandTimeout: shareMs,
  };
  return {
    name: `Redis ${sentinel.name} of the Sentinels ${names}`,
    prefix: "",
    seeds: [],
    open: () => new Redis({ ...options, ...OPTIONS, ...bySentinel }),
  };
}

/** Opens the store's own connections with the settings of the user's client, which stays unchanged. */
export function driverByClient(client: RedisClient | RedisClusterClient): Driver {
  const prefix = client.options.keyPrefix ?? "";
  if (!("nodes" in client && client.isCluster)) {
    const own = client as RedisClient;
    return {
      name: "Redis of the given client",
      prefix,
      seeds: [],
      open: (address) => own.duplicate({ ...OPTIONS, ...(address && withHost(address)) }),
    };
  }
  const [node] = client.nodes("all");
  if (!node) {
    throw new InvalidOptionError("client", "has not discovered its cluster yet: connect it first");
  }
  const map = natMapOf(client.options.natMap);
  return {
    name: "Redis Cluster of the given client",
    prefix,
    seeds: [],
    open: (address) => node.duplicate({ ...OPTIONS, ...(address && withHost(map(address))) }),
  };
}

/** A cluster may leave out its hosts: the client's own is meant then. */
function withHost({ host, port }: Address): Partial<Address> {
  return host === "" ? { port } : { host, port };
}

/** Maps a node's address by the client's `natMap`. */
function natMapOf(map: unknown): (address: Address) => Address {
  return (address) => {
    const key = `${address.host}:${address.port}`;
    const found =
      typeof map === "function"
        ? (map as (key: string) => Address | null | undefined)(key)
        : (map as Readonly<Record<string, Address>> | null | undefined)?.[key];
    checkNotPromise("natMap", found, "the address of the node");
    return found ?? address;
  };
}
