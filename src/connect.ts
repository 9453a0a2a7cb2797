/** Clients over whatever opens their stores: every engine in Node, some of them in a browser. */
import { type Env, systemEnv } from "./env/index.js";
import { type ClientOptions, type LeaseStore, Leases, startCollector } from "./lease/index.js";
import { type Openers, openBy } from "./stores/opening.js";
import type { Source, Stores } from "./stores/source.js";
import { Tasks, type TasksOptions } from "./tasks/index.js";

export interface ConnectOptions {
  /**
   * How long to wait for the store, in milliseconds. Default 5,000; for PGlite 30,000, because it
   * starts a database in this very process.
   */
  connectTimeoutMs?: number;
}

/** As `connect`. */
export async function openLeases(
  openers: Openers,
  source: Source | LeaseStore,
  options: ClientOptions & ConnectOptions,
): Promise<Leases> {
  if (typeof source === "object" && "acquire" in source) {
    return new Leases(source, options, { close: undefined });
  }
  const env = envOf(options);
  const stores = await openBy(openers, source, env, options.connectTimeoutMs);
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

/** As `connectTasks`. */
export async function openTasks(
  openers: Openers,
  source: Source,
  options: TasksOptions & ConnectOptions,
): Promise<Tasks> {
  const stores = await openBy(openers, source, envOf(options), options.connectTimeoutMs);
  return closingOnError(stores, () => new Tasks(stores.tasks, options, stores));
}

/** The outside world of a client. */
export function envOf(options: Pick<ClientOptions, "logger" | "env">): Env {
  const { logger, env } = options;
  return { ...systemEnv, ...(logger ? { logger } : {}), ...env };
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
