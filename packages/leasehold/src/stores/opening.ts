/** From a URL to the stores behind it, by a table of engines. */
import { type Env, withTimeout } from "../env/index.js";
import {
  checkNumber,
  detailsOf,
  InvalidOptionError,
  kindOf,
  type LeaseholdError,
  notingFailures,
  StoreUnavailableError,
} from "../lease/index.js";
import type { OnceStore } from "../once/port.js";
import {
  anyText,
  checkExpanded,
  checkNoFragment,
  checkOneScheme,
  nearestOf,
  readParameters,
} from "../store-kit/url-parameters.js";
import type { LeaseStores, MigrationStep, Source, StoreSource, Stores } from "./source.js";

type Engine = (url: string) => Promise<StoreSource>;

/** By the scheme of the URL. An engine is loaded only when one of its URLs is used. */
export type Engines = Readonly<Record<string, Engine>>;

/** Of a store that does not name its own. */
const CONNECT_TIMEOUT_MS = 5_000;

/** 24 days. Drivers pass it to a timer of Node, which fires at once for more. */
const LONGEST_CONNECT_MS = 2 ** 31 - 1;

/**
 * Opens what the source names; SQL stores are migrated to this version's tables.
 * @param connectTimeoutMs gives up after this long; default 5,000, for PGlite 60,000
 * @throws INVALID_OPTION for a URL of no known engine; STORE_MISCONFIGURED; STORE_UNAVAILABLE
 */
export async function openBy(
  engines: Engines,
  source: Source,
  env: Env,
  connectTimeoutMs?: number,
  path = "source",
): Promise<LeaseStores> {
  if (connectTimeoutMs !== undefined) {
    checkNumber("connectTimeoutMs", connectTimeoutMs, 1, Number.MAX_SAFE_INTEGER);
  }
  const found = await sourceOf(engines, source, path);
  const wantedMs = connectTimeoutMs ?? found.connectTimeoutMs ?? CONNECT_TIMEOUT_MS;
  const timeoutMs = Math.min(wantedMs, LONGEST_CONNECT_MS);
  // An attempt may be under way when the time is over: what the ones before it said is the reason.
  let cause: LeaseholdError | undefined;
  const logger = notingFailures(env.logger, (error) => {
    cause = error;
  });
  const opening = found.open({ ...env, logger }, timeoutMs);
  const opened = withTimeout(env.clock, timeoutMs, opening, () => {
    // It may still open: close it then, or it would leak.
    void opening.then((stores) => stores.close()).catch(() => {});
    const what = `no connection${toHosts(source)} within connectTimeoutMs = ${timeoutMs}`;
    const known = cause instanceof StoreUnavailableError ? detailsOf(cause) : {};
    const message = cause ? `${what}: ${cause.message}` : what;
    throw new StoreUnavailableError(message, { outcome: "none", cause, ...known });
  });
  return opened.catch(nothingChanged);
}

/** ` to HOST:PORT`; nothing where the source names no host, or what looks like one may be a part of a password. */
function toHosts(source: Source): string {
  if (typeof source !== "string" && !(source instanceof URL)) return "";
  const [, place = "", query = ""] = /^[a-z+]+:\/\/([^?#]*)(.*)$/is.exec(String(source)) ?? [];
  const at = place.lastIndexOf("@");
  if (at < 0 && query.includes("@")) return "";
  const [hosts = ""] = place.slice(at + 1).split("/");
  return hosts && ` to ${hosts}`;
}

/** Opening asks and prepares, and can be repeated: whatever failed, no call of the caller's took effect. */
function nothingChanged(error: unknown): never {
  if (!(error instanceof StoreUnavailableError) || error.outcome === "none") throw error;
  const { message, cause } = error;
  throw new StoreUnavailableError(message, { outcome: "none", cause, ...detailsOf(error) });
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
    const second = await openBy(engines, control, env, connectTimeoutMs, "control");
    const close = async () => {
      await Promise.all([first.close(), second.close()]);
    };
    try {
      const history = second.history ?? first.history;
      const { tasks, schedules, backing, control: kept } = withTasks(second, control);
      // Loaded here: most callers name one place.
      const { withLeasesApart } = await import("../control/index.js");
      const ends = [first.stopped, second.stopped].filter((stopped) => stopped !== undefined);
      return {
        leases: first.leases,
        tasks,
        close,
        ...(schedules && { schedules }),
        ...(backing && { backing }),
        ...(first.namespace !== undefined && { namespace: first.namespace }),
        ...(history && { history }),
        ...(first.waiters && { waiters: first.waiters }),
        ...(ends.length > 0 && { stopped: Promise.race(ends) }),
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
  const { tasks } = opened;
  if (tasks) return { ...opened, tasks };
  throw leasesOnly(source);
}

/** @throws INVALID_OPTION if the engine keeps leases only, or the server no records */
export function withOnce(opened: LeaseStores, source: Source): OnceStore {
  if (opened.once) return opened.once;
  if (opened.operator) {
    throw new InvalidOptionError(
      "this server",
      "keeps no records of once: it must be of a version that has /v1/once, and have its leases and its records in one database, without --control",
    );
  }
  throw leasesOnly(source);
}

function leasesOnly(source: Source): InvalidOptionError {
  const scheme = schemeOf(source);
  return new InvalidOptionError(
    scheme ? `${scheme}:` : "this store",
    'keeps leases only: name a store for tasks, as in connect(url, { tasks: "postgres://..." }); PostgreSQL, PGlite, memory and a server keep them (openStores and the command line: the option control)',
  );
}

/**
 * Brings the tables behind the source up to this version.
 * @param own as of {@link StoreSource.migrate}
 * @returns the steps that were applied; none where the engine keeps no tables of ours
 * @throws as {@link openBy}
 */
export async function migrateBy(
  engines: Engines,
  source: Source,
  env: Env,
  own?: readonly string[],
): Promise<readonly string[]> {
  return (await (await sourceOf(engines, source, "source")).migrate?.(env, own)) ?? [];
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
  return (await (await sourceOf(engines, source, "source")).plan?.(env)) ?? null;
}

async function sourceOf(engines: Engines, source: Source, path: string): Promise<StoreSource> {
  if (isOpenable(source)) return source;
  if (typeof source !== "string" && !(source instanceof URL)) throw wrongSource(path, source);
  const text = textOf(source);
  if (text === "") throw wrongSource(path, source);
  const scheme = schemeOf(source);
  const engine = Object.hasOwn(engines, scheme) ? engines[scheme] : undefined;
  if (!engine) {
    const known = Object.keys(engines);
    const listed = known.map((name) => `${name}:`).join(", ");
    throw new InvalidOptionError(
      path,
      `must begin with one of ${listed}; ${wrongBeginning(text, known)}`,
    );
  }
  if (/\s$/.test(text)) {
    throw new InvalidOptionError(path, "must not end with a space or a line break: remove it");
  }
  checkOneScheme(path, text);
  checkExpanded(path, text);
  checkNoFragment(path, text);
  return engine(text);
}

/** A URL has encoded the name of a store in this process or its folder, which are taken as they are written. */
function textOf(source: string | URL): string {
  const text = String(source);
  if (typeof source === "string" || !/^(memory|pglite|sqlite):/i.test(text)) return text;
  const [place = "", ...rest] = text.split(/(?=\?)/);
  try {
    return [decodeURIComponent(place), ...rest].join("");
  } catch {
    return text;
  }
}

/**
 * The parts of `SCHEME:PLACE?NAME=VALUE`, for engines whose URLs name no host.
 * @param names of the parameters, which may have any value but an empty one
 * @param shape of a URL whose place must not begin with //
 * @throws INVALID_OPTION for parameters that are not known
 */
export function split(
  url: string,
  names: readonly string[],
  shape?: string,
): { readonly place: string; readonly parameters: URLSearchParams } {
  const [, scheme = "", place = "", query = ""] = /^([a-z]+:)([^?]*)\??(.*)$/is.exec(url) ?? [];
  const known = Object.fromEntries(names.map((name) => [name, anyText]));
  const parameters = readParameters(scheme.toLowerCase(), query, known);
  if (shape !== undefined && place.startsWith("//")) {
    throw new InvalidOptionError("url", `must be ${shape}, without //`);
  }
  return { place, parameters };
}

function isOpenable(source: unknown): source is StoreSource {
  return typeof methodsOf(source)["open"] === "function";
}

type Methods = Readonly<Record<string, unknown>>;

function methodsOf(value: unknown): Methods {
  return typeof value === "object" && value !== null ? (value as Methods) : {};
}

/** Objects of other packages that callers pass as they are, and what to pass instead. */
const FAMILIAR: readonly (readonly [is: (value: Methods) => unknown, advice: string])[] = [
  [({ then }) => then, "a promise: await it"],
  [
    ({ waitReady, transaction }) => waitReady && transaction,
    "a PGlite: wrap it: pglite({ db }) of leasehold/stores/postgres",
  ],
  [
    ({ query, connect, totalCount }) => query && connect && totalCount !== undefined,
    "a Pool of pg: wrap it: postgres({ pool }) of leasehold/stores/postgres",
  ],
  [
    ({ query, connect, end }) => query && connect && end,
    "a Client of pg: the store needs several connections: postgres({ pool: new pg.Pool(...) }) of leasehold/stores/postgres",
  ],
  [
    ({ sendCommand, isOpen }) => sendCommand && isOpen !== undefined,
    "a client of node-redis: pass its URL: redis({ url }) of leasehold/stores/redis",
  ],
  [
    ({ duplicate, options, status }) => duplicate && options && status,
    "an ioredis client: wrap it: redis({ client }) of leasehold/stores/redis",
  ],
  [
    ({ acquire, run, tryRun }) => acquire && run && tryRun,
    "a client of Leasehold: pass the source that it was connected to",
  ],
  [
    ({ leases, close }) => leases && close,
    "opened stores: pass their leases, as in connect(stores.leases)",
  ],
];

function wrongSource(path: string, source: unknown): InvalidOptionError {
  const kind = kindOf(source);
  const got = FAMILIAR.find(([is]) => is(methodsOf(source)))?.[1];
  if (got) return new InvalidOptionError(path, `must be a URL or a store, got ${got}`);
  let advice = `${kind}: pass a URL, such as "postgres://localhost/app"`;
  if (source === undefined || source === null || source === "") {
    advice = `${kind}: is DATABASE_URL set?`;
  } else if (typeof source === "function") {
    advice = `${kind}: call it, and pass what it returns, as in memory()`;
  } else if (typeof source === "object" && !Array.isArray(source)) {
    advice = `${kind} without open(): pass a URL, or the result of postgres({ pool }) or another engine`;
  }
  return new InvalidOptionError(path, `must be a URL or a store, got ${advice}`);
}

/** Schemes of other programs that need another remedy than the nearest scheme. */
const OTHERS: readonly (readonly [is: RegExp, advice: string])[] = [
  [/^valkeys?(\+sentinel)?:/, "Valkey has the URLs of Redis: redis:// or rediss://"],
  [
    /^(rediss?\+(unix|socket)|redis-socket|unix):/,
    "Redis is reached by TCP alone, not by a socket of Unix: redis://host:port",
  ],
];

/** Why no scheme was found, without what may be a password. */
function wrongBeginning(source: string, known: readonly string[]): string {
  if (/^\s/.test(source)) return "it begins with a space or a line break: remove it";
  if (/^["'`]/.test(source)) return "it begins with a quote, which is no part of a URL: remove it";
  if (/^[$%{<]/.test(source)) return "it begins with a variable that was not expanded";
  const [begin, scheme] = /^([a-z][\w+.-]{0,39}):/i.exec(source.toLowerCase()) ?? [];
  const within = known.find((name) => source.toLowerCase().includes(`${name}://`));
  // Of SQLAlchemy and others, which name their driver.
  const [, base = ""] = /^([a-z]+)\+\w+$/.exec(scheme ?? "") ?? [];
  const advice =
    OTHERS.find(([is]) => is.test(begin ?? ""))?.[1] ??
    (known.includes(base) ? `write ${base}://` : undefined) ??
    (within && `write it from ${within}:// on`);
  if (begin === undefined) {
    return `it has no scheme: ${advice ?? 'for PGlite in a folder, write "pglite:./folder"'}`;
  }
  const nearest = nearestOf(scheme ?? "", known);
  const ask = advice ?? (nearest && `did you mean ${nearest}:`);
  return `it begins with ${begin}${ask ? ` (${ask})` : ""}`;
}

function schemeOf(source: Source): string {
  if (isOpenable(source)) return "";
  if (typeof source !== "string" && !(source instanceof URL)) return "";
  return /^([a-z]+(?:\+[a-z]+)?):/i.exec(String(source))?.[1]?.toLowerCase() ?? "";
}
