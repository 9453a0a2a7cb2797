/**
 * Leasehold: leases with fencing tokens, and the locks, elections, singletons, shards and tasks that are built on
 * them. Start with {@link connect}.
 */
import {
  type ConnectOptions,
  checkMigrateOptions,
  checkOpenStoresOptions,
  envOf,
  type OpenStoresOptions,
  openLeasehold,
} from "./connect.js";
import type { AnyLease, LeaseStore } from "./lease/index.js";
import type { Leasehold } from "./leasehold.js";
import { ENGINES, openStores as open } from "./stores/open.js";
import { migrateBy } from "./stores/opening.js";
import type { Source, Stores } from "./stores/source.js";

export * from "./face.js";

/**
 * Connects to a store and returns a client for leases, elections and tasks.
 * @param source a URL (`memory:NAME`, `pglite:DIR`, `postgres://...`, `redis://...`, `sqlite:FILE`, `etcd://...`, `zookeeper://...`, `consul://...`,
 *   `kubernetes:NAMESPACE`, `http://...`; in a browser `memory:` and `http:` alone), an engine's own source such as
 *   `postgres({ pool })`, or any LeaseStore, which stays yours to close. Clients of one process share `memory:NAME`;
 *   `memory:` without a name is private: `connect("memory:")` twice opens two stores, which do not exclude each other
 * @throws INVALID_OPTION, STORE_MISCONFIGURED, STORE_UNAVAILABLE
 * @example
 * ```ts
 * import { connect } from "leasehold";
 *
 * const leasehold = await connect("memory:", { holder: "web-1" });
 * console.log(await leasehold.run("billing", () => "billed"));
 * await leasehold.close();
 * ```
 */
export function connect(
  source: Source | LeaseStore,
  options?: ConnectOptions & { unfenced?: false },
): Promise<Leasehold>;
/** With `unfenced: true` the store may be one without fencing tokens: check `lease.isFenced`. */
export function connect(
  source: Source | LeaseStore,
  options: ConnectOptions & { unfenced: true },
): Promise<Leasehold<AnyLease>>;
export function connect(
  source: Source | LeaseStore,
  options: ConnectOptions = {},
): Promise<Leasehold<AnyLease>> {
  return openLeasehold(ENGINES, source, options, () => import("./renewal-thread/index.js"));
}

/**
 * Opens the stores themselves, which `createApp` of leasehold-server serves. Close them after the app. A client
 * opens its own: use {@link connect} for it.
 * @param source as for {@link connect}. A source that keeps leases alone also needs `options.control`
 * @param options.connectTimeoutMs default 5,000 ms; for PGlite 60,000, because it starts a database in this process
 * @throws INVALID_OPTION, STORE_MISCONFIGURED, STORE_UNAVAILABLE
 * @example
 * ```ts
 * import { openStores } from "leasehold";
 * import { createApp } from "leasehold-server";
 *
 * const stores = await openStores("memory:");
 * const app = createApp({ ...stores, version: "1.0.0" });
 * console.log((await app.fetch(new Request("http://localhost/healthz"))).status);
 * await app.close();
 * await stores.close();
 * ```
 */
export async function openStores(source: Source, options: OpenStoresOptions = {}): Promise<Stores> {
  checkOpenStoresOptions(options);
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
 * ```ts
 * import { migrate } from "leasehold";
 *
 * console.log(await migrate("pglite:"));
 * ```
 */
export async function migrate(
  source: Source,
  options: Pick<ConnectOptions, "logger" | "env"> = {},
): Promise<readonly string[]> {
  checkMigrateOptions(options);
  return migrateBy(ENGINES, source, envOf(options));
}
