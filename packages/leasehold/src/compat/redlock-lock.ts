/** Locks, settings and errors in the shape of node-redlock 5. */
import { EventEmitter } from "node:events";
import { systemClock } from "../env/index.js";
import {
  checkKnown,
  checkNumber,
  InvalidOptionError,
  LeaseUnavailableError,
  NoTokenError,
} from "../lease/index.js";
import type { Client, LockLeases } from "./redlock-client.js";

/** How a `Redlock` waits for locks and extends them. */
export interface Settings {
  /** How much slower the local clock may run than the store's, as a ratio of the duration. Default 0.01. */
  readonly driftFactor: number;
  /**
   * With `retryDelay`, how long to wait for a held resource: `retryCount` x `retryDelay`. With 0 a call does not
   * wait, with -1 it waits for ever. Also how often an extension is sent again while the store is unavailable.
   * Default 10.
   */
  readonly retryCount: number;
  /** Milliseconds; see `retryCount`. Default 200, so that acquire waits 2 s. */
  readonly retryDelay: number;
  /** Milliseconds by which the pause before a repeated extension varies at random. Default 100. */
  readonly retryJitter: number;
  /** `using` extends its lock when this many milliseconds are left, or earlier. Default 500. */
  readonly automaticExtensionThreshold: number;
}

export const DEFAULTS: Settings = {
  driftFactor: 0.01,
  retryCount: 10,
  retryDelay: 200,
  retryJitter: 100,
  automaticExtensionThreshold: 500,
};

/** What each setting may be. */
const RANGES: Readonly<Record<keyof Settings, readonly [min: number, max: number]>> = {
  driftFactor: [0, 0.5],
  retryCount: [-1, Number.POSITIVE_INFINITY],
  retryDelay: [0, Number.MAX_SAFE_INTEGER],
  retryJitter: [0, Number.MAX_SAFE_INTEGER],
  automaticExtensionThreshold: [0, Number.MAX_SAFE_INTEGER],
};

/**
 * As in node-redlock, a setting that is not a number takes its default.
 * @throws INVALID_OPTION for a name that is no setting, and for a number outside of its range
 */
export function given(settings: Partial<Settings>): Partial<Settings> {
  checkKnown(settings, RANGES, "settings");
  const numbers = Object.entries(settings).filter(([, value]) => typeof value === "number");
  for (const [name, value] of numbers) {
    checkNumber(name, value, ...RANGES[name as keyof Settings]);
    if (name !== "retryCount" || value === -1 || value >= 0) continue;
    throw new InvalidOptionError(name, `must be -1, which waits for ever, or from 0, not ${value}`);
  }
  return Object.fromEntries(numbers);
}

/** How long a call waits for a held resource. */
export function waitMsOf({ retryCount, retryDelay }: Settings): number {
  const isEndless = retryCount === -1 || retryCount === Number.POSITIVE_INFINITY;
  return isEndless ? Number.POSITIVE_INFINITY : retryCount * retryDelay;
}

/** The outcome of one attempt: there is one client, so one vote. */
export interface ExecutionStats {
  readonly membershipSize: number;
  readonly quorumSize: number;
  readonly votesFor: ReadonlySet<Client>;
  readonly votesAgainst: ReadonlyMap<Client, Error>;
}

/** The attempts of an operation, the last one last. */
export type Attempts = readonly Promise<ExecutionStats>[];

/** The result of `release`. */
export interface ExecutionResult {
  readonly attempts: Attempts;
}

/**
 * Another holder has one of the resources. It is in `attempts` of an `ExecutionError`, and in the `error` event.
 * @example
 * ```ts
 * import Redlock, { ResourceLockedError } from "leasehold/compat/redlock";
 *
 * const redlock = new Redlock(["memory:"]);
 * redlock.on("error", (error) => console.log(error instanceof ResourceLockedError));
 * const lock = await redlock.acquire(["account:1"], 5_000);
 * await redlock.acquire(["account:1"], 5_000, { retryCount: 0 }).catch(() => "locked");
 * await lock.release();
 * await redlock.quit();
 * ```
 */
export class ResourceLockedError extends Error {
  override readonly name = "ResourceLockedError";
}

/**
 * An operation failed; `attempts` and `cause` say why.
 * @example
 * ```ts
 * import Redlock, { ExecutionError } from "leasehold/compat/redlock";
 *
 * const redlock = new Redlock(["memory:"]);
 * const lock = await redlock.acquire(["account:1"], 5_000);
 * await redlock.acquire(["account:1"], 5_000, { retryCount: 0 }).catch((error) => {
 *   if (!(error instanceof ExecutionError)) throw error;
 *   console.log(error.message, error.attempts.length, error.cause);
 * });
 * await lock.release();
 * await redlock.quit();
 * ```
 */
export class ExecutionError extends Error {
  override readonly name = "ExecutionError";

  constructor(
    message: string,
    readonly attempts: Attempts,
    cause?: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause });
  }
}

/** Aborts when the lock is lost; `error` is then the `ExecutionError` that says why, before that undefined. */
export type RedlockAbortSignal = AbortSignal & { readonly error?: Error };

/** What a lock calls of its `Redlock`. */
interface Operations {
  release(lock: Lock): Promise<ExecutionResult>;
  extend(lock: Lock, duration: number): Promise<Lock>;
}

/**
 * Holds all of its resources. `Redlock.acquire` and `extend` return it.
 * @example
 * ```ts
 * import Redlock from "leasehold/compat/redlock";
 *
 * const redlock = new Redlock(["memory:"]);
 * const lock = await redlock.acquire(["account:1"], 5_000);
 * console.log(lock.expiration, lock.tokens.get("account:1"));
 * const longer = await lock.extend(10_000);
 * await longer.release();
 * await redlock.quit();
 * ```
 */
export class Lock {
  /** The lease ids, with commas between them. A secret: they allow to renew and release. */
  readonly value: string;
  #isReplaced = false;

  constructor(
    /** The `Redlock` that acquired it. */
    readonly redlock: Operations,
    /** In the order in which they were passed. */
    readonly resources: string[],
    /** The attempts that acquired or extended it. */
    readonly attempts: Attempts,
    /** The leases behind it: their `signal` aborts when the lock is lost, by its time or by an operator. */
    readonly leases: LockLeases,
  ) {
    this.value = leases.leases.map(({ leaseId = "" }) => leaseId).join(",");
  }

  /**
   * Until when it may be trusted, in milliseconds since 1970 by the local clock; 0 once it is released, lost or
   * replaced by `extend`.
   */
  get expiration(): number {
    const leftMs = Math.min(...this.leases.leases.map((lease) => lease.remainingMs()));
    return leftMs > 0 && !this.#isReplaced ? systemClock.wall() + leftMs : 0;
  }

  /**
   * The fencing token of each resource. It grows with each grant of the resource: pass it with every write, and
   * refuse a smaller one than the last there, for example with `leasehold/fence`.
   * @throws NO_TOKEN where the store has none, as `redis({ client, format: "redlock" })`
   */
  get tokens(): ReadonlyMap<string, number> {
    const tokens = this.leases.leases.map(({ resource, token }) => {
      if (token === undefined) throw new NoTokenError(resource);
      return [resource, token] as const;
    });
    return new Map(tokens);
  }

  /** As `redlock.release(lock)`. */
  release(): Promise<ExecutionResult> {
    return this.redlock.release(this);
  }

  /** As `redlock.extend(lock, duration)`, with a duration in milliseconds. */
  extend(duration: number): Promise<Lock> {
    return this.redlock.extend(this, duration);
  }

  /** @internal The same leases under a new lock; this one's `expiration` is 0 from now on. */
  replaced(attempts: Attempts): Lock {
    this.#isReplaced = true;
    return new Lock(this.redlock, this.resources, attempts, this.leases);
  }
}

/** One vote for, or one against because of the error. */
export function statsOf(client: Client, error?: Error): Promise<ExecutionStats> {
  return Promise.resolve({
    membershipSize: 1,
    quorumSize: 1,
    votesFor: new Set(error ? [] : [client]),
    votesAgainst: new Map(error ? [[client, error]] : []),
  });
}

/** The error that `attempts` and the `error` event show for one of ours. */
export function voteOf(error: Error): Error {
  if (!(error instanceof LeaseUnavailableError)) return error;
  return new ResourceLockedError(error.message, { cause: error });
}

/** @throws INVALID_OPTION */
export function checkDuration(duration: number): void {
  if (!Number.isInteger(duration)) {
    throw new InvalidOptionError("duration", "must be whole milliseconds");
  }
}

export function isRetryable(error: unknown): error is Error & { retryable: true } {
  return error instanceof Error && "retryable" in error && error.retryable === true;
}

/** The methods of Node's EventEmitter, which `Redlock` is, for its one event. */
export interface ErrorEvents {
  /** Calls the listener with each error of a call that is tried again. Without a listener, it is a warning. */
  on(event: "error", listener: (error: Error) => void): this;
  /** Calls the listener with the next error alone. */
  once(event: "error", listener: (error: Error) => void): this;
  /** Removes a listener. */
  off(event: "error", listener: (error: Error) => void): this;
  /** As `on`. */
  addListener(event: "error", listener: (error: Error) => void): this;
  /** As `off`. */
  removeListener(event: "error", listener: (error: Error) => void): this;
  /** Calls all listeners. Returns whether there were any. */
  emit(event: "error", error: Error): boolean;
}

/** So typed, the declarations need none of Node. */
export const Emitter = EventEmitter as unknown as new () => ErrorEvents;
