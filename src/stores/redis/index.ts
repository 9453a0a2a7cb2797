/** Leases in Redis (6.2 or later) or Valkey: one server, a cluster, or the user's own client. */
import type { Env } from "../../env/index.js";
import { InvalidOptionError } from "../../lease/index.js";
import type { LeaseStores, StoreSource } from "../source.js";
import {
  driverByClient,
  driverByUrl,
  type RedisClient,
  type RedisClusterClient,
} from "./driver.js";
import { FORMATS, type Format } from "./foreign.js";
import { openRedis } from "./opening.js";

export type { RedisClient, RedisClusterClient, RedisConnection } from "./driver.js";
export type { Format } from "./foreign.js";

const OPEN_TIMEOUT_MS = 5_000;

export interface RedisOptions {
  /**
   * Contends for the locks of other packages instead: `redlock` (a key named as the resource) or
   * `redis-semaphore` (`mutex:` before it). These leases have no fencing token: `lease.token` throws
   * NO_TOKEN. Default: our own records. In a URL: `?format=redlock`.
   */
  readonly format?: Format;
}

/**
 * A Redis server: `redis({ url })`, `redis://user:password@host:port/database`, with TLS `rediss://`;
 * of a cluster any node, or several with commas between them. Or `redis({ client })` with an ioredis
 * client of yours (a Redis or a Cluster; for Sentinel too): its settings and its `keyPrefix` are used,
 * for connections of our own, because no command of ours may be sent again by its rules. It is never
 * closed by us.
 * @throws (when opened) STORE_MISCONFIGURED, STORE_UNAVAILABLE, INVALID_OPTION
 */
export function redis(
  source: ({ readonly url: string | URL } | { readonly client: RedisClient | RedisClusterClient }) &
    RedisOptions,
): StoreSource<LeaseStores> {
  return {
    async open(env: Env, timeoutMs = OPEN_TIMEOUT_MS) {
      if ("client" in source) {
        return openRedis(driverByClient(source.client), env, timeoutMs, formatOf(source.format));
      }
      const { query, ...driver } = await driverByUrl(String(source.url));
      for (const name of query.keys()) {
        if (name === "format") continue;
        throw new InvalidOptionError(
          name,
          'is not known in the URL of a Redis server: "format" is',
        );
      }
      const format = source.format ?? query.get("format") ?? undefined;
      return openRedis(driver, env, timeoutMs, formatOf(format));
    },
  };
}

function formatOf(format: string | undefined): Format | undefined {
  if (format === undefined) return undefined;
  const found = FORMATS.find((name) => name === format);
  if (!found) throw new InvalidOptionError("format", `must be one of ${FORMATS.join(", ")}`);
  return found;
}
