/** The seam to ioredis: what we need of it, how it is opened, and what we never let it do. */
import { InvalidOptionError, StoreMisconfiguredError } from "../../core/index.js";

/** One connection, as ioredis has it. */
export interface RedisConnection {
  readonly status: string;
  connect(): Promise<unknown>;
  disconnect(): void;
  call(command: string, ...args: (string | Uint8Array | number)[]): Promise<unknown>;
  subscribe(...channels: string[]): Promise<unknown>;
  unsubscribe(...channels: string[]): Promise<unknown>;
  on(event: string, listener: (...args: never[]) => void): unknown;
}

/** What we need of your ioredis client: `new Redis(...)` fits. Its settings are used, not its connection. */
export interface RedisClient {
  readonly options: { readonly keyPrefix?: string | undefined };
  duplicate(override?: object): RedisConnection;
}

/** What we need of your client of a cluster: `new Cluster(...)` fits. */
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
 * No command is kept for a connection to come, and none is sent again: whoever asked has been told
 * that nobody knows, and has asked anew or given up. A connection that ends has ended; the next call
 * opens another one. An answer is what the server said, without prefixes and conversions.
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
  // Of the greeting too, which is sent when the connection stands.
  commandTimeout: 10_000,
  connectTimeout: 5_000,
  keepAlive: 10_000,
  keyPrefix: "",
  readOnly: false,
  protocol: 2,
  replyMapping: "legacy",
  stringNumbers: false,
} as const;

/** Where connections come from. */
export interface Driver {
  /** For messages: without secrets. */
  readonly name: string;
  /** Before every key and channel. */
  readonly prefix: string;
  /** Somewhere to begin. */
  readonly seeds: readonly Address[];
  /** A client that is not connected yet. Default: to wherever its settings say. */
  open(address?: Address): RedisConnection;
}

/**
 * @param url `redis://user:password@host:port/database`, `rediss://` with TLS; of a cluster one node,
 *   or several with commas between them
 */
export async function driverByUrl(
  url: string,
): Promise<Driver & { readonly query: URLSearchParams }> {
  const { seeds, options, query } = parse(url);
  const { Redis } = await import("ioredis").catch((error) => {
    throw new StoreMisconfiguredError("the package ioredis is missing: npm install ioredis", error);
  });
  return {
    name: `Redis at ${seeds.map(({ host, port }) => `${host}:${port}`).join(",")}`,
    prefix: "",
    seeds,
    query,
    open: (address) =>
      new Redis({ connectionName: "leasehold", ...options, ...(address ?? seeds[0]), ...OPTIONS }),
  };
}

/** Connections of our own with the settings of the user's client, which stays as it is. */
export function driverByClient(client: RedisClient | RedisClusterClient): Driver {
  const prefix = client.options.keyPrefix ?? "";
  if (!("nodes" in client && client.isCluster)) {
    const own = client as RedisClient;
    return {
      name: "Redis of the given client",
      prefix,
      seeds: [],
      open: (address) => own.duplicate({ ...OPTIONS, ...address }),
    };
  }
  const [node] = client.nodes("all");
  if (!node) {
    throw new InvalidOptionError("client", "knows no node of its cluster yet: connect it first");
  }
  const map = natMapOf(client.options.natMap);
  return {
    name: "Redis Cluster of the given client",
    prefix,
    seeds: [],
    open: (address) => node.duplicate({ ...OPTIONS, ...(address && map(address)) }),
  };
}

/** Which address leads to a node from here, as the user has told ioredis. */
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
    // Without its cause, which quotes the URL with the password.
    throw new StoreMisconfiguredError(
      "the URL of the Redis server cannot be read: write redis://user:password@host:port/database, of a cluster with commas between its nodes, what is special in the password as %XX",
    );
  }
}
