/** From a URL to the stores behind it, by a table of engines. */
import { withLeasesApart } from "../control/index.js";
import type { Env } from "../env/index.js";
import { checkNumber, InvalidOptionError, StoreUnavailableError } from "../lease/index.js";
import type { LeaseStores, Source, Stores } from "./source.js";

type Opener = (url: string, env: Env, timeoutMs: number) => Promise<LeaseStores>;

/** By the scheme of the URL. Engines are loaded only when one of theirs is opened. */
export type Openers = Readonly<Record<string, Opener>>;

/** PGlite starts a database in this process: a second or two, half a minute where others want the processors too. */
const CONNECT_TIMEOUT_MS = { pglite: 60_000, other: 5_000 } as const;

/**
 * Opens what the source names; SQL stores are migrated to this version's tables.
 * @param connectTimeoutMs gives up after this long; default 5,000, for PGlite 60,000
 * @throws INVALID_OPTION for a URL of no known engine; STORE_MISCONFIGURED; STORE_UNAVAILABLE
 */
export async function openBy(
  openers: Openers,
  source: Source,
  env: Env,
  connectTimeoutMs: number = CONNECT_TIMEOUT_MS[schemeOf(source) === "pglite" ? "pglite" : "other"],
): Promise<LeaseStores> {
  checkNumber("connectTimeoutMs", connectTimeoutMs, 1, Number.MAX_SAFE_INTEGER);
  const opening = openSource(openers, source, env, connectTimeoutMs);
  return new Promise((resolve, reject) => {
    const timer = env.clock.timer(connectTimeoutMs, () => {
      reject(
        new StoreUnavailableError(`no connection within connectTimeoutMs = ${connectTimeoutMs}`, {
          outcome: "none",
        }),
      );
      // It may still open: nobody would close it.
      void opening.then((stores) => stores.close()).catch(() => {});
    });
    opening.then(resolve, reject).finally(() => timer.cancel());
  });
}

/**
 * Opens what keeps leases and what keeps the rest, tasks among it: two places, or one.
 * @param control default: the same place
 * @throws as {@link openBy}; INVALID_OPTION where tasks are wanted from an engine that keeps none
 */
export async function openAll(
  openers: Openers,
  source: Source,
  control: Source | undefined,
  env: Env,
  connectTimeoutMs?: number,
): Promise<Stores> {
  const first = await openBy(openers, source, env, connectTimeoutMs);
  try {
    if (control === undefined) return withTasks(first, source);
    const second = await openBy(openers, control, env, connectTimeoutMs);
    const close = async () => {
      await Promise.all([first.close(), second.close()]);
    };
    try {
      const history = second.history ?? first.history;
      const { tasks, generator, control: kept } = withTasks(second, control);
      return {
        ...{ leases: first.leases, tasks, generator, close },
        ...(history && { history }),
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
    "keeps leases only: keep tasks in PostgreSQL, PGlite or behind a server (a control store)",
  );
}

async function openSource(
  openers: Openers,
  source: Source,
  env: Env,
  timeoutMs: number,
): Promise<LeaseStores> {
  if (typeof source === "object" && "open" in source) return source.open(env, timeoutMs);
  const scheme = schemeOf(source);
  const opener = Object.hasOwn(openers, scheme) ? openers[scheme] : undefined;
  if (!opener) {
    const known = Object.keys(openers).map((name) => `${name}:`);
    throw new InvalidOptionError("source", `must begin with one of ${known.join(", ")}`);
  }
  return opener(String(source), env, timeoutMs);
}

function schemeOf(source: Source): string {
  if (typeof source === "object" && "open" in source) return "";
  return /^([a-z]+):/i.exec(String(source))?.[1]?.toLowerCase() ?? "";
}
