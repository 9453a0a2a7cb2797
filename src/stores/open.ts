/** All engines. */
import type { Env } from "../env/index.js";
import { ANYWHERE } from "./open-anywhere.js";
import { type Openers, openAll } from "./opening.js";
import type { Source, Stores } from "./source.js";

const postgres: Openers[string] = async (url, env) =>
  (await import("./postgres/index.js")).postgres({ url }).open(env);

export const ENGINES: Openers = {
  ...ANYWHERE,
  pglite: async (url, env) =>
    (await import("./postgres/index.js"))
      .pglite({ directory: url.slice("pglite:".length) })
      .open(env),
  postgres,
  postgresql: postgres,
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
