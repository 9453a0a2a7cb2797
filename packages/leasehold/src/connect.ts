/** Clients over whatever opens their stores: every engine in Node, some of them in a browser. */
import {
  CLOSING_SIGNALS,
  type ClosingSignal,
  closeOnSignals,
  type Env,
  envFrom,
  getsSignals,
  isHeldByOneTimer,
  measureStalls,
  newHolder,
  type Repeating,
  repeat,
  systemClock,
  warningLogger,
} from "./env/index.js";
import { loggedLeases } from "./instrumentation/lease-log.js";
import {
  type AnyLease,
  type ClientOptions,
  ClosedError,
  checkKnown,
  checkObject,
  checkOptional,
  checkOutside,
  InvalidOptionError,
  LeaseClient,
  type LeaseStore,
  type RenewalThread,
  startCollector,
} from "./lease/index.js";
import { type Leasehold, leaseholdOver } from "./leasehold.js";
import type { OnceClient, OnceStore } from "./once/index.js";
import { type LoadThread, threadFor } from "./renew-in.js";
import { type Engines, openBy, withOnce, withTasks } from "./stores/opening.js";
import type { LeaseStores, Source } from "./stores/source.js";
import { type TaskStores, type TasksClient, tasksOver } from "./tasks/index.js";

/** Options of `connect`. */
export interface ConnectOptions extends ClientOptions {
  /** Where tasks are kept, if not in the source: a source as that of `connect`. Default: in the source. Closed with the client. */
  tasks?: Source;
  /**
   * Accept a store that gives no fencing tokens (`?format=`). Default false: a write of a holder that was paused past
   * its lease could then not be refused. With `true`, what is acquired may be an `UnfencedLease`.
   */
  unfenced?: boolean;
  /**
   * How long to wait for the store, in milliseconds. Default 5,000; for PGlite 60,000, because it
   * starts a database in this process.
   */
  connectTimeoutMs?: number;
  /**
   * Close the client when the process receives a signal to end: `true` means at SIGINT and SIGTERM. The work
   * drains as in `close()`, then the process ends by that signal; a second one ends it at once. Where
   * others listen to the same signal, they decide when the process ends. Default false: a library installs
   * no signal handlers unasked. Refused where there are no signals, as in browsers.
   */
  closeOnSignals?: boolean | readonly ClosingSignal[];
  /**
   * Which thread renews the leases: `"loop"`, the event loop of this program, or `"thread"`, a worker thread with
   * connections of its own, which renews while the event loop is blocked. For programs that compute for longer than a
   * TTL. Only in Node, with a URL as the source, and not for `memory:`, `pglite:`, ZooKeeper and Consul. It renews no tasks.
   * Default `"loop"`: a thread costs a second set of connections and about 30 MB.
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("redis://localhost", { renewIn: "thread", maxBlockedMs: 120_000 });
   * await leasehold.run("report", { ttlMs: 10_000 }, () => computeForAMinute());
   * await leasehold.close();
   *
   * function computeForAMinute() {
   *   for (const untilMs = Date.now() + 60_000; Date.now() < untilMs; );
   * }
   * ```
   */
  renewIn?: "loop" | "thread";
  /**
   * With `renewIn: "thread"`: the thread renews nothing while the event loop has not run for this long, in milliseconds,
   * from 100. Work that hangs in a loop then loses its leases, at most this time and a TTL after it began to hang. Default
   * 60,000: few computations block for longer.
   */
  maxBlockedMs?: number;
}

/** Options of `openStores`. */
export interface OpenStoresOptions
  extends Pick<ConnectOptions, "logger" | "env" | "connectTimeoutMs"> {
  /** Where tasks and the history of grants are kept. Default: the source. */
  control?: Source;
}

/** @throws InvalidOptionError */
export function checkOpenStoresOptions(options: OpenStoresOptions): void {
  checkKnown(options, { logger: true, env: true, connectTimeoutMs: true, control: true });
}

/** @throws InvalidOptionError */
export function checkMigrateOptions(options: Pick<ConnectOptions, "logger" | "env">): void {
  checkKnown(options, { logger: true, env: true });
}

const OPTIONS: Readonly<Record<keyof ConnectOptions, true>> = {
  namespace: true,
  holder: true,
  logger: true,
  env: true,
  defaults: true,
  graceMs: true,
  tasks: true,
  unfenced: true,
  connectTimeoutMs: true,
  closeOnSignals: true,
  renewIn: true,
  maxBlockedMs: true,
};

/** As `connect`. */
export async function openLeasehold(
  engines: Engines,
  source: Source | LeaseStore,
  options: ConnectOptions,
  loadThread?: LoadThread,
): Promise<Leasehold<AnyLease>> {
  checkKnown(options, OPTIONS);
  for (const name of ["logger", "env", "defaults"] as const) {
    if (options[name] !== undefined) checkObject(name, options[name]);
  }
  checkOptional("boolean", options, ["unfenced"]);
  const signals = signalsOf(options);
  const threaded = await threadFor(source, options, loadThread);
  const env = { ...envOf(options), ...(threaded && { clock: threaded.module.processClock }) };
  const { connectTimeoutMs } = options;
  const isStore = isLeaseStore(source);
  const opened: LeaseStores = isStore
    ? // What connect() did not open, it does not close.
      { leases: source, close: async () => {} }
    : await openBy(engines, source, env, connectTimeoutMs);
  const closing = [opened.close.bind(opened)];
  const disconnect = async () => {
    await Promise.all(closing.map((close) => close()));
  };
  try {
    let { namespace } = opened;
    let taskStores = (): TaskStores => withTasks(opened, isStore ? "" : source);
    let records = () => withOnce(opened, isStore ? "" : source);
    if (options.tasks !== undefined) {
      const apart = await openBy(engines, options.tasks, env, connectTimeoutMs, "tasks");
      closing.push(apart.close.bind(apart));
      const kept = withTasks(apart, options.tasks);
      taskStores = () => kept;
      records = () => withOnce(apart, options.tasks ?? "");
      namespace = onlyNamespace("tasks", namespace, apart.namespace);
    }
    if (opened.leases.capabilities.tokens === false && options.unfenced !== true) {
      throw new InvalidOptionError(
        "unfenced",
        "must be true for this store, which gives no fencing tokens: a late write of a paused holder cannot be refused",
      );
    }
    const thread = await threaded?.start(opened.leases, env, connectTimeoutMs);
    if (thread) closing.push(thread.close.bind(thread));
    // A server collects by itself, and a store of the caller's is the caller's to collect.
    const isCollected = isStore || (opened.tasks?.capabilities.reaps ?? false);
    namespace = onlyNamespace("namespace", namespace, options.namespace);
    // Without a logger of the caller's there are only warnings.
    const isLogged = (options.logger ?? options.env?.logger) !== undefined;
    return clientOver(
      isLogged ? loggedLeases(opened.leases, env) : opened.leases,
      { taskStores, records, areApart: options.tasks !== undefined },
      { ...options, ...(namespace !== undefined && { namespace }), env },
      signals,
      {
        collect: !isCollected,
        disconnect,
        thread,
      },
    );
  } catch (error) {
    await disconnect();
    throw error;
  }
}

/** A client also acquires, but only a store has all of these. */
function isLeaseStore(source: unknown): source is LeaseStore {
  if (typeof source !== "object" || source === null) return false;
  return ["acquire", "renew", "release", "collect"].every(
    (name) => typeof Reflect.get(source, name) === "function",
  );
}

/**
 * The one of both that is given.
 * @throws InvalidOptionError if they differ
 */
function onlyNamespace(path: string, served: string | undefined, other: string | undefined) {
  if (served === undefined || other === undefined || served === other) return served ?? other;
  throw new InvalidOptionError(
    path,
    `must be "${served}", the namespace of this client's key on the server, not "${other}": leave it out`,
  );
}

/** What a client uses beside its leases, opened when it does. */
interface BesideLeases {
  /** @throws INVALID_OPTION where the engine keeps leases only, as `records` */
  readonly taskStores: () => TaskStores;
  readonly records: () => OnceStore;
  /** Whether the records are in another store than the leases. */
  readonly areApart: boolean;
}

function clientOver(
  store: LeaseStore,
  beside: BesideLeases,
  { holder, ...options }: ConnectOptions & { readonly env: Env },
  signals: readonly ClosingSignal[],
  owned: {
    readonly collect: boolean;
    readonly disconnect: () => Promise<void>;
    readonly thread: RenewalThread | undefined;
  },
): Leasehold {
  const { env } = options;
  const identity = { ...options, holder: holder ?? newHolder(env.random) };
  const leases = new LeaseClient(measured("leases", store, env), identity, {
    close: undefined,
    thread: owned.thread,
  });
  const collector = owned.collect ? startCollector(store, env) : undefined;
  const unmeasure = measureStalls(env);
  const isRealTime = env.clock === systemClock || owned.thread !== undefined;
  const forgotten = isRealTime ? warnOfForgotten(leases, env) : undefined;
  let tasks: TasksClient | undefined;
  let onceClient: Promise<OnceClient> | undefined;
  let closed: Promise<void> | undefined;
  const close = async () => {
    // Handlers may use leases until they have drained.
    await tasks?.close();
    // Where it was refused, there is nothing to close.
    await (await onceClient?.catch(() => undefined))?.close();
    await leases.close();
    await collector?.stop();
    unmeasure();
    await forgotten?.stop();
    await owned.disconnect().finally(forget);
  };
  const openTasks = () => {
    const { tasks: kept, schedules } = beside.taskStores();
    const stores = { tasks: measured("tasks", kept, env), schedules };
    return tasksOver(stores, identity, { close: undefined });
  };
  const openOnce = async () => {
    const records = beside.records();
    const { onceOver } = await import("./once/index.js");
    if (!beside.areApart) return onceOver(records, leases, false);
    const apart = measured("leases", records.leases, env);
    return onceOver(records, new LeaseClient(apart, identity, { close: undefined }), true);
  };
  const client = leaseholdOver({
    leases,
    // Made at first use: who holds leases alone pays for no tasks.
    tasks() {
      if (!tasks && closed) throw new ClosedError();
      tasks ??= openTasks();
      return tasks;
    },
    once() {
      if (closed) throw new ClosedError();
      onceClient ??= openOnce();
      return onceClient;
    },
    close: () => (closed ??= close()),
  });
  const forget = closeOnSignals({ signals, logger: env.logger, close: () => client.close() });
  return client;
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

const IDLE_CHECK_MS = 10_000;

/** Warns once of leases whose renewal is all that keeps this process alive: most often a missing release. */
function warnOfForgotten(leases: LeaseClient, env: Env): Repeating {
  let warned = false;
  return repeat(env, "look for forgotten leases", IDLE_CHECK_MS, async () => {
    const resources = warned ? [] : leases.heldResources();
    if (resources.length === 0 || !isHeldByOneTimer()) return;
    warned = true;
    const remedy = "release the lease, close the client, or use run(), which releases by itself";
    env.logger.warn(
      { resources: resources.slice(0, 5), remedy },
      "a lease is still held, and nothing else keeps this process alive",
    );
  });
}

/** The instrumentation brings what measures a store: a client without it does not load it. */
function measured<Store extends object>(what: "leases" | "tasks", store: Store, env: Env): Store {
  return env.telemetry?.measured(what, store, env.clock) ?? store;
}

/**
 * The outside world of a client. Without a logger, warnings and errors are warnings of the process.
 * @throws InvalidOptionError
 */
export function envOf(options: Pick<ClientOptions, "logger" | "env">): Env {
  checkOutside(options);
  return envFrom({ ...options, logger: options.logger ?? warningLogger() });
}
