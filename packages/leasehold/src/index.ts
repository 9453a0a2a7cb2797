/**
 * Leasehold: exclusive rights that expire, with tokens that grow.
 * Start with {@link connect} for leases and {@link connectTasks} for tasks.
 */
import {
  type ConnectOptions,
  envOf,
  type OpenStoresOptions,
  openLeases,
  openTasks,
} from "./connect.js";
import type { ClientOptions, LeaseClient, LeaseStore } from "./core/index.js";
import { ENGINES, openStores as open } from "./stores/open.js";
import { migrateBy } from "./stores/opening.js";
import type { Source, Stores } from "./stores/source.js";
import type { Tasks, TasksOptions } from "./tasks/index.js";

export * from "./face.js";

/**
 * Opens a client for leases.
 * @param source a URL (`memory:NAME`, `pglite:DIR`, `postgres://...`, `redis://...`, `http://...`; in a
 *   browser `memory:` and `http:` alone), an engine's own source such as `postgres({ pool })`, or any
 *   LeaseStore, which stays yours to close
 * @throws INVALID_OPTION, STORE_MISCONFIGURED, STORE_UNAVAILABLE
 */
export function connect(
  source: Source | LeaseStore,
  options: ClientOptions & ConnectOptions = {},
): Promise<LeaseClient> {
  return openLeases(ENGINES, source, options);
}

/**
 * Opens a client for tasks.
 * @param source as for {@link connect}; tasks live in SQL, in memory, or behind a server
 * @throws INVALID_OPTION, STORE_MISCONFIGURED, STORE_UNAVAILABLE
 */
export function connectTasks(
  source: Source,
  options: TasksOptions & ConnectOptions = {},
): Promise<Tasks> {
  return openTasks(ENGINES, source, options);
}

/**
 * Opens the stores themselves, which `createApp` of leasehold-server serves. Close them after the
 * app; clients need none of this.
 * @param source as for {@link connect}; one that keeps leases only needs `control`
 * @throws INVALID_OPTION, STORE_MISCONFIGURED, STORE_UNAVAILABLE
 */
export function openStores(source: Source, options: OpenStoresOptions = {}): Promise<Stores> {
  return open(source, options.control, envOf(options), options.connectTimeoutMs);
}

/**
 * Brings the tables behind a source up to this version, as opening it does: for a program or a step of a
 * deployment that may change tables where the others may not. Steps only go forward, and any number of
 * processes may run them at once.
 * @param source as for {@link connect}
 * @returns the names of the steps that were applied, oldest first; none where the tables were up to date, or
 *   the engine keeps no tables of ours
 * @throws INVALID_OPTION, STORE_MISCONFIGURED, STORE_UNAVAILABLE
 * @example
 * ```js
 * import { migrate } from "leasehold";
 * console.log(await migrate("postgres://owner@localhost/app"));
 * ```
 */
export function migrate(
  source: Source,
  options: Pick<ClientOptions, "logger" | "env"> = {},
): Promise<readonly string[]> {
  return migrateBy(ENGINES, source, envOf(options));
}
