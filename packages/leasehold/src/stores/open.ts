/** All engines. */
import type { Env } from "../env/index.js";
import type { Reached } from "./http/connection-node.js";
import { ANYWHERE } from "./open-anywhere.js";
import { type Engines, openAll, split } from "./opening.js";
import type { Source, Stores } from "./source.js";

export { migrateBy, openBy, planBy } from "./opening.js";

/** Loaded where it is needed. */
export async function reachServers(url: string, env: Env): Promise<Reached> {
  return (await import("./http/connection-node.js")).reachServers(url, env);
}

const consul: Engines[string] = async (url) => (await import("./consul/index.js")).consul({ url });

const etcd: Engines[string] = async (url) => (await import("./etcd/index.js")).etcd({ url });

const http: Engines[string] = async (url) => (await import("./http/node.js")).http({ url });

const redis: Engines[string] = async (url) => (await import("./redis/index.js")).redis({ url });

const postgres: Engines[string] = async (url) =>
  (await import("./postgres/index.js")).postgres({ url });

const zookeeper: Engines[string] = async (url) =>
  (await import("./zookeeper/index.js")).zookeeper({ url });

export const ENGINES: Engines = {
  ...ANYWHERE,
  consul,
  consuls: consul,
  etcd,
  etcds: etcd,
  http,
  https: http,
  kubernetes: async (url) => (await import("./kubernetes/index.js")).kubernetes({ url }),
  pglite: async (url) => {
    const { place, parameters } = split(url, ["schema"]);
    const schema = parameters.get("schema");
    const { pglite } = await import("./postgres/index.js");
    return pglite({ directory: place, ...(schema !== null && { schema }) });
  },
  postgres,
  postgresql: postgres,
  redis,
  "redis+sentinel": redis,
  rediss: redis,
  "rediss+sentinel": redis,
  sqlite: async (url) => {
    const { place } = split(url, [], "a path such as ./leases.db or /data/leases.db");
    return (await import("./sqlite/index.js")).sqlite({ file: place });
  },
  zookeeper,
  zookeepers: zookeeper,
};

/** As {@link openAll}. */
export function openStores(
  source: Source,
  control: Source | undefined,
  env: Env,
  connectTimeoutMs?: number,
): Promise<Stores> {
  return openAll(ENGINES, source, control, env, connectTimeoutMs);
}
