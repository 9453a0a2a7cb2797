/**
 * The public entry for browsers and other runtimes without Node: `index.ts` with the engines that run anywhere.
 * Bundlers choose it through the export condition `browser`. Its types are those of `index.ts`.
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
import { ANYWHERE } from "./stores/open-anywhere.js";
import { migrateBy, openAll } from "./stores/opening.js";
import type { Source, Stores } from "./stores/source.js";

export * from "./face.js";

export function connect(
  source: Source | LeaseStore,
  options?: ConnectOptions & { unfenced?: false },
): Promise<Leasehold>;
export function connect(
  source: Source | LeaseStore,
  options: ConnectOptions & { unfenced: true },
): Promise<Leasehold<AnyLease>>;
export function connect(
  source: Source | LeaseStore,
  options: ConnectOptions = {},
): Promise<Leasehold<AnyLease>> {
  return openLeasehold(ANYWHERE, source, options);
}

export async function openStores(source: Source, options: OpenStoresOptions = {}): Promise<Stores> {
  checkOpenStoresOptions(options);
  return openAll(ANYWHERE, source, options.control, envOf(options), options.connectTimeoutMs);
}

export async function migrate(
  source: Source,
  options: Pick<ConnectOptions, "logger" | "env"> = {},
): Promise<readonly string[]> {
  checkMigrateOptions(options);
  return migrateBy(ANYWHERE, source, envOf(options));
}
