/** Leases in Redis (6.2 or later) or Valkey: one server, a cluster, or the user's own client. */

import { InvalidOptionError } from "../../core/index.js";
import type { Env } from "../../env/index.js";
import type { LeaseStores, StoreSource } from "../source.js";
import { CompatibilityLeaseStore, FORMATS, type Format } from "./compatibility.js";
import { COMPATIBILITY_SCRIPTS } from "./compatibility-scripts.js";
import {
  type Driver,
  driverByClient,
  driverByUrl,
  type RedisClient,
  type RedisClusterClient,
} from "./connection-driver.js";
import { Servers } from "./connection-servers.js";
import { checkSettings, diagnoseRedis, infoOf, isCluster } from "./diagnose.js";
import { Keys } from "./keys.js";
import { PROBE, SCRIPTS } from "./scripts.js";
import { loadScripts, ScriptCalls } from "./scripts-call.js";
import { RedisLeaseStore } from "./store.js";
import { Hints } from "./watch-connection.js";

export type { Format } from "./compatibility.js";
export type { RedisClient, RedisClusterClient, RedisConnection } from "./connection-driver.js";

const OPEN_TIMEOUT_MS = 5_000;
const DIAGNOSE_MS = 5_000;
/** The key of no resource: names have at least one byte. */
const NO_RESOURCE = { namespace: "", resource: "" };

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

/** @throws STORE_UNAVAILABLE, STORE_MISCONFIGURED */
async function openRedis(
  driver: Driver,
  env: Env,
  timeoutMs: number,
  format?: Format,
): Promise<LeaseStores> {
  const servers = new Servers(driver, env);
  const deadlineMs = env.clock.monotonic() + timeoutMs;
  let hints: Hints | undefined;
  const close = async () => {
    hints?.close();
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
    const scripts = await loadScripts(servers, { ...SCRIPTS, probe: PROBE }, deadlineMs);
    const channel = keys.channel(NO_RESOURCE.namespace);
    // Over both, so that the first renewal finds its connection open.
    for (const lane of ["general", "control"] as const) {
      await servers.run(lane, scripts.probe, [keys.record(NO_RESOURCE)], [channel], deadlineMs);
    }
    hints = new Hints(servers);
    await hints.open(channel);
    const calls = new ScriptCalls(servers, scripts, keys);
    return storesOf(new RedisLeaseStore(calls, hints), servers, close);
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
