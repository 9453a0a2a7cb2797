/**
 * The interface to ioredis: the parts that the store uses, how it opens connections, and which features
 * it disables.
 */
import { InvalidOptionError, loadDriver, StoreMisconfiguredError } from "../../core/index.js";

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

export interface Address {
  readonly host: string;
  readonly port: number;
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
  /** The server to connect to first. */
  readonly seeds: readonly Address[];
  /** Returns a client that is not connected yet. Default: to the server in its settings. */
  open(address?: Address): RedisConnection;
}

/**
 * @param url `redis://user:password@host:port/database`, or `rediss://` for TLS; for a cluster one or
 *   more nodes, separated by commas
 */
export async function driverByUrl(
  url: string,
): Promise<Driver & { readonly query: URLSearchParams }> {
  const { seeds, options, query } = parse(url);
  const Redis = await loadDriver(
    "ioredis",
    () => import("ioredis"),
    ({ Redis }) => Redis,
  );
  return {
    name: `Redis at ${seeds.map(({ host, port }) => `${host}:${port}`).join(",")}`,
    prefix: "",
    seeds,
    query,
    open: (address) =>
      new Redis({ connectionName: "leasehold", ...options, ...(address ?? seeds[0]), ...OPTIONS }),
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
    return found ?? address;
  };
}

function parse(text: string) {
  const [, scheme, auth = "", hosts = "", path = "", query = ""] =
    /^(rediss?):\/\/(?:([^/?#]*)@)?([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/i.exec(text) ?? [];
  const database = path === "" ? 0 : Number(path);
  try {
    const seeds = hosts.split(",").map((host) => {
      const { hostname, port } = new URL(`redis://${host || "localhost"}`);
      return { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || 6379) };
    });
    const [username = "", password = ""] = auth.split(/:(.*)/s).map(decodeURIComponent);
    if (scheme === undefined || !Number.isInteger(database) || database < 0) throw new Error(path);
    const options = {
      ...(username && { username }),
      ...(password && { password }),
      ...(scheme.toLowerCase() === "rediss" && { tls: {} }),
      db: database,
    };
    return { seeds, options, query: new URLSearchParams(query) };
  } catch {
    // Omits the cause, which quotes the URL with the password.
    throw new StoreMisconfiguredError(
      "the Redis URL is invalid: write redis://user:password@host:port/database, separate the nodes of a cluster by commas, and percent-encode special characters of the password",
    );
  }
}
