/**
 * Leasehold: exclusive rights that expire, with tokens that grow.
 * Start with {@link connect} for leases and {@link connectTasks} for tasks.
 */
import { type Env, systemEnv } from "./env/index.js";
import { type ClientOptions, type LeaseStore, Leases, startCollector } from "./lease/index.js";
import { openStores } from "./stores/open.js";
import type { Source, Stores } from "./stores/source.js";
import { Tasks, type TasksOptions } from "./tasks/index.js";

export type { Clock, Logger, Random, Timer } from "./env/index.js";
export {
  type AcquireOptions,
  type ClientOptions,
  ClosedError,
  type ErrorCode,
  HeldLease,
  InvalidOptionError,
  Lease,
  LeaseholdError,
  LeaseLostError,
  type LeaseOptions,
  type LeaseState,
  type LeaseStore,
  Leases,
  LeaseUnavailableError,
  type LeaseView,
  type LostReason,
  type Page,
  type RevokeOutcome,
  StaleTokenError,
  StoreMisconfiguredError,
  StoreUnavailableError,
  type TryRunResult,
  type WatchEvent,
  type Work,
} from "./lease/index.js";
export type { Source, StoreSource } from "./stores/source.js";
export {
  defineTask,
  FinalTaskError,
  type HandlerContext,
  type TaskDefinition,
  type TaskHandler,
  type Tasks,
  type TasksOptions,
  type Worker,
  type WorkerOptions,
} from "./tasks/index.js";

interface ConnectOptions {
  /**
   * How long to wait for the store, in milliseconds. Default 5,000; for PGlite 30,000, because it
   * starts a database in this very process.
   */
  connectTimeoutMs?: number;
}

/**
 * Opens a client for leases.
 * @param source a URL (`memory:NAME`, `pglite:DIR`, `postgres://...`, `http://...`), an engine's own
 *   source such as `postgres({ pool })`, or any LeaseStore, which stays yours to close
 * @throws INVALID_OPTION, STORE_MISCONFIGURED, STORE_UNAVAILABLE
 */
export async function connect(
  source: Source | LeaseStore,
  options: ClientOptions & ConnectOptions = {},
): Promise<Leases> {
  if (typeof source === "object" && "acquire" in source) {
    return new Leases(source, options, { close: undefined });
  }
  const env = envOf(options);
  const stores = await openStores(source, env, options.connectTimeoutMs);
  return closingOnError(stores, () => {
    const leases = new Leases(stores.leases, options, {
      close: async () => {
        await collector?.stop();
        await stores.close();
      },
    });
    // A server collects by itself.
    const tended = stores.tasks.capabilities.reaps;
    const collector = tended ? undefined : startCollector(stores.leases, env);
    return leases;
  });
}

/**
 * Opens a client for tasks.
 * @param source as for {@link connect}; tasks live in SQL, in memory, or behind a server
 * @throws INVALID_OPTION, STORE_MISCONFIGURED, STORE_UNAVAILABLE
 */
export async function connectTasks(
  source: Source,
  options: TasksOptions & ConnectOptions = {},
): Promise<Tasks> {
  const stores = await openStores(source, envOf(options), options.connectTimeoutMs);
  return closingOnError(stores, () => new Tasks(stores.tasks, options, stores));
}

/** A client that cannot be made leaves no store open. */
async function closingOnError<T>(stores: Stores, make: () => T): Promise<T> {
  try {
    return make();
  } catch (error) {
    await stores.close();
    throw error;
  }
}

function envOf(options: ClientOptions | TasksOptions): Env {
  const { logger, env } = options;
  return { ...systemEnv, ...(logger ? { logger } : {}), ...env };
}
