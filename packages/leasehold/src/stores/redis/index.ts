/** Leases in Redis (6.2 or later) or Valkey: a single server, a cluster, or the user's client. */

import type { Env } from "../../env/index.js";
import { checkMethods, checkObject, checkUrl, InvalidOptionError } from "../../lease/index.js";
import { type ExpectedServer, openServer } from "../../store-kit/opening-server.js";
import type { LeaseStores, StoreSource } from "../source.js";
import { CompatibilityLeaseStore } from "./compatibility.js";
import { COMPATIBILITY_SCRIPTS } from "./compatibility-scripts.js";
import { addressOf, FORMATS, type Format, type RedisAddress } from "./connection-address.js";
import {
  driverByAddress,
  driverByClient,
  type RedisClient,
  type RedisClusterClient,
} from "./connection-driver.js";
import { LANES, Servers } from "./connection-servers.js";
import { checkSettings, diagnoseRedis, infoOf, isCluster } from "./diagnose.js";
import { withoutCertificate } from "./failures.js";
import { Keys } from "./keys.js";
import { loadScripts, SCRIPTS } from "./scripts-call.js";
import { RedisLeaseStore } from "./store.js";
import { Notifications } from "./watch-connection.js";

export type { Format } from "./connection-address.js";
export type { RedisClient, RedisClusterClient, RedisConnection } from "./connection-driver.js";

const OPEN_TIMEOUT_MS = 5_000;
const DIAGNOSE_MS = 5_000;
/** Not the key of any resource: names have at least one byte. */
const NO_RESOURCE = { namespace: "", resource: "" };

/** Options of `redis`. */
export interface RedisOptions {
  /**
   * Contends for the locks of another package instead: `redlock` (the key is the resource) or
   * `redis-semaphore` (`mutex:` and the resource). These leases have no fencing token: `lease.token`
   * throws NO_TOKEN. Default: Leasehold's own records. In a URL: `?format=redlock`.
   */
  readonly format?: Format;
}

/**
 * Leases in Redis. `redis({ url })` takes `redis://user:password@host:port/database`; for a cluster one or
 * more nodes, separated by commas; for Sentinel `redis+sentinel://user:password@sentinel:port,sentinel2/name/database`
 * with the name of the primary, and `?sentinelUsername=` and `?sentinelPassword=` if the Sentinels ask for them.
 * `rediss://` and `rediss+sentinel://` use TLS: `?cacert=` is the path of a PEM file with the authority (default: those of
 * Node), `?cert=` and `?key=` are the client's certificate. `redis({ client })` takes an ioredis client (a Redis or
 * a Cluster; also for Sentinel). The store opens its own connections with the client's settings and `keyPrefix`,
 * because the client could send a command twice. It never closes the client.
 * @throws (on opening) STORE_MISCONFIGURED, STORE_UNAVAILABLE, INVALID_OPTION
 * @example
 * ```ts
 * import { connect } from "leasehold";
 * import { redis } from "leasehold/stores/redis";
 *
 * const leasehold = await connect(redis({ url: "redis://localhost:6379/0" }));
 * await leasehold.close();
 * ```
 */
export function redis(
  source: ({ readonly url: string | URL } | { readonly client: RedisClient | RedisClusterClient }) &
    RedisOptions,
): StoreSource<LeaseStores> {
  checkObject("options", source);
  if (!("client" in source)) checkUrl(source.url);
  else {
    const { client } = source;
    // A client of node-redis has duplicate(), and no call().
    const methods = "nodes" in Object(client) ? ["nodes"] : ["duplicate", "call"];
    checkMethods("client", client, methods, "new Redis(...) of ioredis");
  }
  return {
    async open(env: Env, timeoutMs = OPEN_TIMEOUT_MS) {
      if ("client" in source) {
        const servers = new Servers(driverByClient(source.client), env);
        return openRedis(servers, timeoutMs, formatOf(source.format));
      }
      const address = addressOf(String(source.url));
      const format = formatOf(source.format ?? address.format ?? undefined);
      const servers = new Servers(await driverByAddress(address), env);
      const opening = openRedis(servers, timeoutMs, format).catch((error: unknown) => {
        throw address.tls === null ? error : withoutCertificate(error);
      });
      const expected = expectedAt(address);
      const close = (late: LeaseStores) => late.close();
      return openServer(expected, env, opening, close, () => servers.close());
    },
  };
}

function expectedAt({ hosts: addresses, tls, sentinel }: RedisAddress): ExpectedServer {
  const suffix = sentinel === null ? "" : "+sentinel";
  if (tls !== null) {
    const remedies = { Redis: `it has no TLS, so write redis${suffix}://` };
    return { addresses, protocol: "TLS", remedies };
  }
  const remedies = { TLS: `write rediss${suffix}:// for TLS` };
  return { addresses, protocol: "Redis", remedies };
}

function formatOf(format: string | undefined): Format | undefined {
  if (format === undefined) return undefined;
  const found = FORMATS.find((name) => name === format);
  if (!found) throw new InvalidOptionError("format", `must be one of ${FORMATS.join(", ")}`);
  return found;
}

/** @throws STORE_UNAVAILABLE, STORE_MISCONFIGURED */
async function openRedis(
  servers: Servers,
  timeoutMs: number,
  format?: Format,
): Promise<LeaseStores> {
  const { driver, env } = servers;
  const deadlineMs = env.clock.monotonic() + timeoutMs;
  let notifications: Notifications | undefined;
  const close = async () => {
    notifications?.close();
    servers.close();
  };
  try {
    const [first] = driver.seeds;
    const node = driver.seeds.length > 1 && first ? `${first.host}:${first.port}` : undefined;
    if (node !== undefined) await servers.readSlots(deadlineMs);
    else if (isCluster(await infoOf(servers, undefined, deadlineMs))) {
      await servers.readSlots(deadlineMs);
    }
    for (const each of servers.nodes()) {
      checkSettings(await infoOf(servers, each, deadlineMs), servers.nameOf(each));
    }
    const keys = new Keys(driver.prefix);
    if (format) {
      const scripts = await loadScripts(servers, COMPATIBILITY_SCRIPTS, deadlineMs);
      return storesOf(new CompatibilityLeaseStore(servers, scripts, format), servers, close);
    }
    const scripts = await loadScripts(servers, SCRIPTS, deadlineMs);
    const channel = keys.channel(NO_RESOURCE.namespace);
    // Probes both connections, so that the first renewal finds its connection open.
    for (const lane of LANES) {
      await servers.run(lane, scripts.probe, [keys.record(NO_RESOURCE)], [channel], deadlineMs);
    }
    notifications = new Notifications(servers);
    await notifications.open(channel);
    const store = new RedisLeaseStore({ servers, scripts, keys }, notifications);
    return storesOf(store, servers, close);
  } catch (error) {
    await close();
    throw error;
  }
}

function storesOf(
  leases: RedisLeaseStore | CompatibilityLeaseStore,
  servers: Servers,
  close: () => Promise<void>,
): LeaseStores {
  return {
    leases,
    async diagnose() {
      const deadlineMs = servers.env.clock.monotonic() + DIAGNOSE_MS;
      const asked = servers.nodes().map(async (node) => {
        return diagnoseRedis(servers.nameOf(node), await infoOf(servers, node, deadlineMs));
      });
      return (await Promise.all(asked)).flat();
    },
    ...(leases instanceof RedisLeaseStore && { waiters: (key) => leases.waiters(key) }),
    async close() {
      await leases.close();
      await close();
    },
  };
}
