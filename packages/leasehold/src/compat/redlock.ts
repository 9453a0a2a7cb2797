/**
 * The API of node-redlock 5 on Leasehold: change the import, and locks have fencing tokens, a fair queue and any
 * store. What differs is in docs/compat-redlock.md.
 */
import {
  guarded,
  isError,
  jittered,
  type Logger,
  propertyOf,
  silentLogger,
  sleep,
  systemClock,
  systemRandom,
  warningLogger,
} from "../env/index.js";
import {
  ClosedError,
  checkFunction,
  InvalidOptionError,
  StoreUnavailableError,
} from "../lease/index.js";
import { type Client, Connection, onlyClient } from "./redlock-client.js";
import {
  type Attempts,
  checkDuration,
  DEFAULTS,
  Emitter,
  ExecutionError,
  type ExecutionResult,
  type ExecutionStats,
  given,
  isRetryable,
  Lock,
  type RedlockAbortSignal,
  type Settings,
  statsOf,
  voteOf,
  waitMsOf,
} from "./redlock-lock.js";

export type { Client } from "./redlock-client.js";
export {
  type ErrorEvents,
  ExecutionError,
  type ExecutionResult,
  type ExecutionStats,
  Lock,
  type RedlockAbortSignal,
  ResourceLockedError,
  type Settings,
} from "./redlock-lock.js";

/** The work of `using`. The lock is in addition to node-redlock: for `lock.tokens`. */
export type Routine<T> = (signal: RedlockAbortSignal, lock: Lock) => Promise<T>;

/** `using` must have this many milliseconds between two extensions. */
const SHORTEST_EXTENSION_MS = 100;

const WARNINGS = warningLogger();

/**
 * Locks with the methods of node-redlock 5. Connects at the first call.
 *
 * Emits `error` for each error that it meets, also for those that it recovers from. Without a listener they are
 * ignored.
 * @example
 * ```ts
 * import { Redis } from "ioredis";
 * import Redlock from "leasehold/compat/redlock";
 *
 * const redlock = new Redlock([new Redis()]);
 * redlock.on("error", (error) => console.log(error.message));
 * await redlock.quit();
 * ```
 */
export default class Redlock extends Emitter {
  /** The one client. */
  readonly clients: ReadonlySet<Client>;
  /** What was passed, and the defaults. */
  readonly settings: Settings;
  readonly #client: Client;
  readonly #connection: Connection;
  /** The store's errors reach us by the logger, and again when a call rejects with them. */
  readonly #emitted = new WeakSet<Error>();

  /**
   * @param clients one ioredis client (a Redis or a Cluster), one source of `connect()` such as
   *   `"postgres://localhost/app"`, or one client that `connect()` returned
   * @param settings see each; default: those of node-redlock
   * @param scripts must be left out: the store has its own
   * @throws INVALID_OPTION for none or several clients, for scripts, and for a setting that does not exist or is out of range
   */
  constructor(
    clients: Iterable<Client>,
    settings: Partial<Settings> = {},
    scripts?: Readonly<Record<string, never>>,
  ) {
    super();
    if (scripts !== undefined && Object.keys(scripts).length > 0) {
      throw new InvalidOptionError(
        "scripts",
        "cannot be replaced, because the store runs its own: leave the argument out",
      );
    }
    this.#client = onlyClient(clients);
    this.clients = new Set([this.#client]);
    this.settings = Object.freeze({ ...DEFAULTS, ...given(settings) });
    this.#connection = new Connection(this.#client, this.#logger());
    // Node throws an `error` event that has no listener.
    this.on("error", () => {});
  }

  /**
   * Releases the locks that are still held, ends the waits, and closes the connections. Work of `using` gets the
   * time of the client's `graceMs` (5 s) to end. Calls `quit()` of the ioredis client, or `close()` of yours.
   */
  quit(): Promise<void> {
    return this.#connection.quit();
  }

  /**
   * Acquires all resources, or none. Waits for those that others hold, first come, first served.
   * @param resources at least one, each once
   * @param duration whole milliseconds, at least 100
   * @throws ExecutionError when one stayed held or the store was unavailable; INVALID_OPTION
   * @example
   * ```ts
   * import Redlock from "leasehold/compat/redlock";
   *
   * const redlock = new Redlock(["memory:"]);
   * const lock = await redlock.acquire(["account:1", "account:2"], 5_000);
   * console.log(lock.tokens);
   * await redlock.release(lock);
   * await redlock.quit();
   * ```
   */
  async acquire(
    resources: readonly string[],
    duration: number,
    settings?: Partial<Settings>,
  ): Promise<Lock> {
    return this.#acquire(resources, duration, this.#with(settings), { autoRenew: false });
  }

  /**
   * Releases all resources of the lock.
   * @throws ExecutionError when the lock has already ended, or the store did not confirm: the lock then expires by
   *   itself
   * @example
   * ```ts
   * import Redlock from "leasehold/compat/redlock";
   *
   * const redlock = new Redlock(["memory:"]);
   * const lock = await redlock.acquire(["account:1"], 5_000);
   * await redlock.release(lock);
   * await redlock.quit();
   * ```
   */
  async release(lock: Lock, settings?: Partial<Settings>): Promise<ExecutionResult> {
    const wasHeld = lock.leases.checkAlive();
    const { attempts } = await this.#execute({ ...this.#with(settings), retryCount: 0 }, () =>
      lock.leases.release(),
    );
    if (!wasHeld) throw new ExecutionError("Cannot release a lock that has ended.", []);
    return { attempts };
  }

  /**
   * Extends the lock, which lasts `duration` from now on, or as long as before if that is longer.
   * @param duration whole milliseconds, at least 100
   * @returns a lock in place of the old one, whose `expiration` becomes 0
   * @throws ExecutionError when the lock has ended or the store was unavailable: until its `expiration` the old
   *   lock may be extended again; INVALID_OPTION
   * @example
   * ```ts
   * import Redlock from "leasehold/compat/redlock";
   *
   * const redlock = new Redlock(["memory:"]);
   * let lock = await redlock.acquire(["account:1"], 5_000);
   * lock = await redlock.extend(lock, 10_000);
   * await lock.release();
   * await redlock.quit();
   * ```
   */
  async extend(lock: Lock, duration: number, settings?: Partial<Settings>): Promise<Lock> {
    checkDuration(duration);
    if (lock.expiration === 0) {
      throw new ExecutionError("Cannot extend a lock that has ended.", []);
    }
    const { attempts } = await this.#execute(
      this.#with(settings),
      () => Promise.all(lock.leases.leases.map((lease) => lease.renew({ ttlMs: duration }))),
      () => lock.leases.checkAlive(),
    );
    return lock.replaced(attempts);
  }

  /**
   * Runs the routine under a lock that is extended until the routine ends, then releases it.
   * @param duration whole milliseconds, at least 100 more than `automaticExtensionThreshold`
   * @returns what the routine returned
   * @throws as `acquire`; what the routine threw; ExecutionError when the lock was lost before the routine ended
   * @example
   * ```ts
   * import Redlock from "leasehold/compat/redlock";
   *
   * const redlock = new Redlock(["memory:"]);
   * await redlock.using(["account:1"], 5_000, async (signal, lock) => {
   *   if (signal.aborted) throw signal.error;
   *   console.log(lock.tokens);
   * });
   * await redlock.quit();
   * ```
   */
  using<T>(
    resources: readonly string[],
    duration: number,
    settings: Partial<Settings>,
    routine?: Routine<T>,
  ): Promise<T>;
  using<T>(resources: readonly string[], duration: number, routine: Routine<T>): Promise<T>;
  async using<T>(
    resources: readonly string[],
    duration: number,
    settingsOrRoutine: Partial<Settings> | Routine<T>,
    last?: Routine<T>,
  ): Promise<T> {
    const isRoutine = typeof settingsOrRoutine === "function";
    const routine = isRoutine ? settingsOrRoutine : last;
    checkFunction("routine", routine);
    const settings = this.#with(isRoutine ? {} : settingsOrRoutine);
    checkDuration(duration);
    const extensionMs = duration - settings.automaticExtensionThreshold;
    if (extensionMs < SHORTEST_EXTENSION_MS) {
      throw new InvalidOptionError(
        "duration",
        `must be at least ${SHORTEST_EXTENSION_MS} ms more than automaticExtensionThreshold ` +
          `(${settings.automaticExtensionThreshold} ms)`,
      );
    }
    const renewIntervalMs = Math.min(extensionMs, Math.floor(duration / 3));
    const keep = { autoRenew: true, renewIntervalMs };
    const lock = await this.#acquire(resources, duration, settings, keep);
    let value: T;
    try {
      value = await routine(this.#signalOf(lock), lock);
    } catch (error) {
      // The routine's error says more than that of the release.
      await this.release(lock, settings).catch(() => {});
      throw error;
    }
    await this.release(lock, settings);
    return value;
  }

  async #acquire(
    resources: readonly string[],
    duration: number,
    settings: Settings,
    keep: { autoRenew: boolean; renewIntervalMs?: number },
  ): Promise<Lock> {
    checkDuration(duration);
    const waitMs = waitMsOf(settings);
    const options = { ttlMs: duration, waitMs, driftRatio: settings.driftFactor, ...keep };
    const { value, attempts } = await this.#execute({ ...settings, retryCount: 0 }, async () => {
      const client = await this.#connection.open();
      const leases = await client.acquireAll(resources, options);
      // The first ones were acquired before the wait for the others.
      if (resources.length > 1) {
        await Promise.all(leases.leases.map((lease) => lease.renew({ ttlMs: duration }))).catch(
          async (error: unknown) => {
            await leases.release().catch(() => {});
            throw error;
          },
        );
      }
      return leases;
    });
    return new Lock(this, [...resources], attempts, value);
  }

  /**
   * Attempts the operation, again while the store is unavailable.
   * @throws ExecutionError; INVALID_OPTION and the like, which no other attempt changes
   */
  async #execute<T>(
    { retryCount, retryDelay, retryJitter }: Settings,
    operation: () => Promise<T>,
    mayRepeat: () => boolean = () => true,
  ): Promise<{ value: T; attempts: Attempts }> {
    const attempts: Promise<ExecutionStats>[] = [];
    for (;;) {
      try {
        const value = await operation();
        attempts.push(statsOf(this.#client));
        return { value, attempts };
      } catch (error) {
        const isOutcome = error instanceof ClosedError || isRetryable(error);
        if (!isOutcome) throw error;
        const vote = voteOf(error);
        this.#emitOnce(vote);
        attempts.push(statsOf(this.#client, vote));
        const isLast = retryCount !== -1 && attempts.length > retryCount;
        if (isLast || !(error instanceof StoreUnavailableError) || !mayRepeat()) {
          throw new ExecutionError(vote.message, attempts, vote);
        }
      }
      const ratio = retryDelay > 0 ? Math.min(1, retryJitter / retryDelay) : 0;
      await sleep(systemClock, jittered(systemRandom, retryDelay, ratio));
    }
  }

  /** @param settings of one call, over those of this instance */
  #with(settings: Partial<Settings> = {}): Settings {
    return { ...this.settings, ...given(settings) };
  }

  #signalOf(lock: Lock): RedlockAbortSignal {
    const { signal } = lock.leases;
    let error: ExecutionError | undefined;
    const onAbort = () => {
      const reason = signal.reason as Error;
      error = new ExecutionError(reason.message, [statsOf(this.#client, reason)], reason);
      this.#emitOnce(reason);
    };
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort, { once: true });
    return Object.defineProperty(signal, "error", { get: () => error });
  }

  #emitOnce(error: Error): void {
    if (this.#emitted.has(error)) return;
    this.#emitted.add(error);
    guarded(
      () => this.emit("error", error),
      (err) => WARNINGS.warn({ err }, "a listener threw"),
    );
  }

  /** Of the client that we open: it logs what it recovers from. */
  #logger(): Logger {
    const emit = (fields: object) => {
      const err = propertyOf(fields, "err");
      if (isError(err)) this.#emitOnce(err);
    };
    return { ...silentLogger, warn: emit, error: emit };
  }
}
