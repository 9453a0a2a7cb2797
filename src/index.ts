/**
 * Leasehold: exclusive rights that expire, with tokens that grow.
 * Start with {@link connect} for leases and {@link connectTasks} for tasks.
 */
import { type Env, systemEnv } from "./env/index.js";
import { type ClientOptions, checkNumber, type LeaseStore, Leases } from "./lease/index.js";
import { openStores, type Source } from "./stores/open.js";
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
export type { Source, StoreSource } from "./stores/open.js";
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
  /** How long to wait for the store, in milliseconds. Default 5,000. */
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
  const stores = await open(source, options);
  return new Leases(stores.leases, options, stores);
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
  const stores = await open(source, options);
  return new Tasks(stores.tasks, options, stores);
}

function open(source: Source, options: (ClientOptions | TasksOptions) & ConnectOptions) {
  const { connectTimeoutMs = 5_000 } = options;
  checkNumber("connectTimeoutMs", connectTimeoutMs, 1, Number.MAX_SAFE_INTEGER);
  const env: Env = {
    ...systemEnv,
    ...(options.logger ? { logger: options.logger } : {}),
    ...options.env,
  };
  return openStores(source, env, connectTimeoutMs);
}
