/**
 * The public face where there is no Node: `index.ts` with the engines that run anywhere. Bundlers
 * take it by the condition `browser`; its types are those of `index.ts`.
 */
import {
  type ConnectOptions,
  envOf,
  type OpenStoresOptions,
  openLeases,
  openTasks,
} from "./connect.js";
import type { ClientOptions, LeaseClient, LeaseStore } from "./core/index.js";
import { ANYWHERE } from "./stores/open-anywhere.js";
import { migrateBy, openAll } from "./stores/opening.js";
import type { Source, Stores } from "./stores/source.js";
import type { Tasks, TasksOptions } from "./tasks/index.js";

export * from "./face.js";

export function connect(
  source: Source | LeaseStore,
  options: ClientOptions & ConnectOptions = {},
): Promise<LeaseClient> {
  return openLeases(ANYWHERE, source, options);
}

export function connectTasks(
  source: Source,
  options: TasksOptions & ConnectOptions = {},
): Promise<Tasks> {
  return openTasks(ANYWHERE, source, options);
}

export function openStores(source: Source, options: OpenStoresOptions = {}): Promise<Stores> {
  return openAll(ANYWHERE, source, options.control, envOf(options), options.connectTimeoutMs);
}

export function migrate(
  source: Source,
  options: Pick<ClientOptions, "logger" | "env"> = {},
): Promise<readonly string[]> {
  return migrateBy(ANYWHERE, source, envOf(options));
}
