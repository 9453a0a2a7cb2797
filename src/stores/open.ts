/** All engines. */
import type { Env } from "../env/index.js";
import { ANYWHERE } from "./open-anywhere.js";
import { type Openers, openAll } from "./opening.js";
import type { Source, Stores } from "./source.js";

const etcd: Openers[string] = async (url, env, timeoutMs) =>
  (await import("./etcd/index.js")).etcd({ url }).open(env, timeoutMs);

const redis: Openers[string] = async (url, env, timeoutMs) =>
  (await import("./redis/index.js")).redis({ url }).open(env, timeoutMs);

const postgres: Openers[string] = async (url, env) =>
  (await import("./postgres/index.js")).postgres({ url }).open(env);

export const ENGINES: Openers = {
  ...ANYWHERE,
  etcd,
  etcds: etcd,
  kubernetes: async (url, env, timeoutMs) =>
    (await import("./kubernetes/index.js")).kubernetes({ url }).open(env, timeoutMs),
  pglite: async (url, env) =>
    (await import("./postgres/index.js"))
      .pglite({ directory: url.slice("pglite:".length) })
      .open(env),
  postgres,
  postgresql: postgres,
  redis,
  rediss: redis,
  zookeeper: async (url, env, timeoutMs) =>
    (await import("./zookeeper/index.js")).zookeeper({ url }).open(env, timeoutMs),
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
