/** Clients over whatever opens their stores: every engine in Node, some of them in a browser. */

import {
  type ClientOptions,
  checkKnown,
  InvalidOptionError,
  LeaseClient,
  type LeaseStore,
  startCollector,
} from "./core/index.js";
import {
  CLOSING_SIGNALS,
  type ClosingSignal,
  closeOnSignals,
  type Env,
  getsSignals,
  systemEnv,
} from "./env/index.js";
import { type Engines, openBy, withTasks } from "./stores/opening.js";
import type { LeaseStores, Source } from "./stores/source.js";
import { Tasks, type TasksOptions } from "./tasks/index.js";

export interface ConnectOptions {
  /**
   * How long to wait for the store, in milliseconds. Default 5,000; for PGlite 30,000, because it
   * starts a database in this very process.
   */
  connectTimeoutMs?: number;
  /**
   * Close the client when the process is told to end: `true` means at SIGINT and SIGTERM. The work
   * drains as in `close()`, then the process ends by that signal; a second one ends it at once. Where
   * others listen to the same signal, when it ends is left to them. Default false: a library installs
   * no signal handlers unasked. Refused where there are no signals, as in browsers.
   */
  closeOnSignals?: boolean | readonly ClosingSignal[];
}

export interface OpenStoresOptions
  extends Pick<ClientOptions & ConnectOptions, "logger" | "env" | "connectTimeoutMs"> {
  /** Where tasks, the generator's state and the history of grants are kept. Default: the source. */
  control?: Source;
}

const OPEN_OPTIONS: Readonly<Record<keyof ConnectOptions, true>> = {
  connectTimeoutMs: true,
  closeOnSignals: true,
};
const TASKS_OPTIONS: Readonly<Record<keyof (TasksOptions & ConnectOptions), true>> = {
  namespace: true,
  holder: true,
  logger: true,
  env: true,
  ...OPEN_OPTIONS,
};
const LEASES_OPTIONS: Readonly<Record<keyof (ClientOptions & ConnectOptions), true>> = {
  defaults: true,
  graceMs: true,
  ...TASKS_OPTIONS,
};

/** As `connect`. */
export async function openLeases(
  engines: Engines,
  source: Source | LeaseStore,
  options: ClientOptions & ConnectOptions,
): Promise<LeaseClient> {
  checkKnown(options, LEASES_OPTIONS);
  const signals = signalsOf(options);
  const env = envOf(options);
  if (typeof source === "object" && "acquire" in source) {
    return closedBy(signals, env, (forget) => {
      return new LeaseClient(measured("leases", source, env), options, {
        close: async () => forget(),
      });
    });
  }
  const stores = await openBy(engines, source, env, options.connectTimeoutMs);
  return closingOnError(stores, () => {
    // A server collects by itself.
    const tended = stores.tasks?.capabilities.reaps ?? false;
    return closedBy(signals, env, (forget) => {
      const leases = new LeaseClient(measured("leases", stores.leases, env), options, {
        close: async () => {
          await collector?.stop();
          await stores.close().finally(forget);
        },
      });
      const collector = tended ? undefined : startCollector(stores.leases, env);
      return leases;
    });
  });
}

/** As `connectTasks`. */
export async function openTasks(
  engines: Engines,
  source: Source,
  options: TasksOptions & ConnectOptions,
): Promise<Tasks> {
  checkKnown(options, TASKS_OPTIONS);
  const signals = signalsOf(options);
  const env = envOf(options);
  const stores = await openBy(engines, source, env, options.connectTimeoutMs);
  return closingOnError(stores, () => {
    const { tasks } = withTasks(stores, source);
    return closedBy(signals, env, (forget) => {
      return new Tasks(measured("tasks", tasks, env), options, {
        close: () => stores.close().finally(forget),
      });
    });
  });
}

/** @throws InvalidOptionError */
function signalsOf({ closeOnSignals }: ConnectOptions): readonly ClosingSignal[] {
  if (closeOnSignals === undefined || closeOnSignals === false) return [];
  const signals = closeOnSignals === true ? (["SIGINT", "SIGTERM"] as const) : closeOnSignals;
  const given: unknown = signals;
  const known: readonly unknown[] = CLOSING_SIGNALS;
  if (!Array.isArray(given) || !given.every((name) => known.includes(name))) {
    const names = known.join(", ");
    throw new InvalidOptionError("closeOnSignals", `must be true, or an array of ${names}`);
  }
  if (!getsSignals()) {
    throw new InvalidOptionError("closeOnSignals", "needs a process that gets signals");
  }
  return signals;
}

/** @param make is given what the client calls when it has closed */
function closedBy<Client extends { close(): Promise<void> }>(
  signals: readonly ClosingSignal[],
  { logger }: Env,
  make: (forget: () => void) => Client,
): Client {
  const client = make(() => forget());
  const forget = closeOnSignals({ signals, logger, close: () => client.close() });
  return client;
}

/** What measures a store comes with the telemetry: nobody else loads it. */
function measured<Store extends object>(what: "leases" | "tasks", store: Store, env: Env): Store {
  return env.telemetry?.measured(what, store, env.clock) ?? store;
}

/** The outside world of a client. */
export function envOf(options: Pick<ClientOptions, "logger" | "env">): Env {
  const { logger, env } = options;
  return { ...systemEnv, ...(logger ? { logger } : {}), ...env };
}

/** A client that cannot be made leaves no store open. */
async function closingOnError<T>(stores: LeaseStores, make: () => T): Promise<T> {
  try {
    return make();
  } catch (error) {
    await stores.close();
    throw error;
  }
}
