/** From a URL to the stores behind it, by a table of engines. */
import { withLeasesApart } from "../control/index.js";
import { checkNumber, InvalidOptionError, StoreUnavailableError } from "../core/index.js";
import { type Env, withTimeout } from "../env/index.js";
import type { LeaseStores, MigrationStep, Source, StoreSource, Stores } from "./source.js";

type Engine = (url: string) => Promise<StoreSource>;

/** By the scheme of the URL. An engine is loaded only when one of its URLs is used. */
export type Engines = Readonly<Record<string, Engine>>;

/** PGlite starts a database in this process: a second or two, half a minute where others want the processors too. */
const CONNECT_TIMEOUT_MS = { pglite: 60_000, other: 5_000 } as const;

/**
 * Opens what the source names; SQL stores are migrated to this version's tables.
 * @param connectTimeoutMs gives up after this long; default 5,000, for PGlite 60,000
 * @throws INVALID_OPTION for a URL of no known engine; STORE_MISCONFIGURED; STORE_UNAVAILABLE
 */
export async function openBy(
  engines: Engines,
  source: Source,
  env: Env,
  connectTimeoutMs: number = CONNECT_TIMEOUT_MS[schemeOf(source) === "pglite" ? "pglite" : "other"],
): Promise<LeaseStores> {
  checkNumber("connectTimeoutMs", connectTimeoutMs, 1, Number.MAX_SAFE_INTEGER);
  const opening = sourceOf(engines, source).then((found) => found.open(env, connectTimeoutMs));
  return withTimeout(env.clock, connectTimeoutMs, opening, () => {
    // It may still open: close it then, or it would leak.
    void opening.then((stores) => stores.close()).catch(() => {});
    const what = `no connection within connectTimeoutMs = ${connectTimeoutMs}`;
    throw new StoreUnavailableError(what, { outcome: "none" });
  });
}

/**
 * Opens what keeps leases and what keeps the rest, tasks among it: two places, or one.
 * @param control default: the same place
 * @throws as {@link openBy}; INVALID_OPTION where tasks are wanted from an engine that keeps none
 */
export async function openAll(
  engines: Engines,
  source: Source,
  control: Source | undefined,
  env: Env,
  connectTimeoutMs?: number,
): Promise<Stores> {
  const first = await openBy(engines, source, env, connectTimeoutMs);
  try {
    if (control === undefined) return withTasks(first, source);
    const second = await openBy(engines, control, env, connectTimeoutMs);
    const close = async () => {
      await Promise.all([first.close(), second.close()]);
    };
    try {
      const history = second.history ?? first.history;
      const { tasks, generator, control: kept } = withTasks(second, control);
      return {
        leases: first.leases,
        tasks,
        generator,
        close,
        ...(first.namespace !== undefined && { namespace: first.namespace }),
        ...(history && { history }),
        ...(first.waiters && { waiters: first.waiters }),
        ...(kept && { control: withLeasesApart(kept, first.leases) }),
      };
    } catch (error) {
      await second.close();
      throw error;
    }
  } catch (error) {
    await first.close();
    throw error;
  }
}

/** @throws INVALID_OPTION if the engine keeps leases only */
export function withTasks(opened: LeaseStores, source: Source): Stores {
  const { tasks, generator } = opened;
  if (tasks && generator) return { ...opened, tasks, generator };
  const scheme = schemeOf(source);
  throw new InvalidOptionError(
    scheme ? `${scheme}:` : "this store",
    'keeps leases only: name a store for tasks, as in connect(url, { tasks: "postgres://..." }); PostgreSQL, PGlite, memory and a server keep them (openStores and the command line: the option control)',
  );
}

/**
 * Brings the tables behind the source up to this version.
 * @returns the steps that were applied; none where the engine keeps no tables of ours
 * @throws as {@link openBy}
 */
export async function migrateBy(
  engines: Engines,
  source: Source,
  env: Env,
): Promise<readonly string[]> {
  return (await (await sourceOf(engines, source)).migrate?.(env)) ?? [];
}

/**
 * All steps of {@link migrateBy}, applied and remaining, without taking any.
 * @returns null where the engine keeps no tables of ours
 * @throws as {@link openBy}
 */
export async function planBy(
  engines: Engines,
  source: Source,
  env: Env,
): Promise<readonly MigrationStep[] | null> {
  return (await (await sourceOf(engines, source)).plan?.(env)) ?? null;
}

async function sourceOf(engines: Engines, source: Source): Promise<StoreSource> {
  if (typeof source === "object" && "open" in source) return source;
  const scheme = schemeOf(source);
  const engine = Object.hasOwn(engines, scheme) ? engines[scheme] : undefined;
  if (!engine) {
    const known = Object.keys(engines).map((name) => `${name}:`);
    throw new InvalidOptionError("source", `must begin with one of ${known.join(", ")}`);
  }
  return engine(String(source));
}

function schemeOf(source: Source): string {
  if (typeof source === "object" && "open" in source) return "";
  return /^([a-z]+):/i.exec(String(source))?.[1]?.toLowerCase() ?? "";
}
