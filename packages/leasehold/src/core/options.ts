/** Options of a client and of one lease: defaults, ranges and relations, checked once. */
import type { Env } from "../env/index.js";
import { InvalidOptionError } from "./errors.js";
import { encodeMetadata } from "./names.js";
import type { Capabilities } from "./port.js";

/** How one lease is taken and kept. */
export interface AcquireOptions {
  /**
   * Milliseconds until a grant expires unless it is renewed; a positive integer, at least 100.
   * Default 30,000, or the longest that the store allows: long enough to live through a slow database or a long garbage collection,
   * short enough that work of a dead process is taken over within half a minute.
   */
  ttlMs?: number;
  /**
   * How long `acquire` and `run` wait for a held resource, in milliseconds. Default Infinity: a lock
   * is waited for; `signal` ends the wait earlier. The `try` forms never wait.
   */
  waitMs?: number;
  /** Gives up waiting; the call rejects with the signal's own reason. */
  signal?: AbortSignal;
  /** Shown to people beside the lease; at most 4 KiB. */
  metadata?: Record<string, string>;
  /** Renew in the background until released or lost. Default true. */
  autoRenew?: boolean;
  /**
   * Milliseconds between renewals, each moved by up to 10 % at random so that a fleet does not act
   * in step. Default a third of `ttlMs`: two renewals may fail before the lease is in danger.
   */
  renewIntervalMs?: number;
  /**
   * Milliseconds by which the holder stops before the store may grant anew. Default 10: covers the
   * coarseness of timers between a check of the lease and the step that it protects.
   */
  marginMs?: number;
  /**
   * By how much the holder's clock may run slower than the store's, as a ratio from 0 to 0.5. Default 0.01
   * (1 %, as node-redlock; quartz is off by 0.01 %, virtual machines by more).
   */
  driftRatio?: number;
  /**
   * Give the lease up at the first renewal that fails, even if the store may have renewed it.
   * Default false: an unknown answer ends the lease only when its trusted time has passed.
   */
  stopOnRenewError?: boolean;
}

/** Options of the `Lease` object (acquire, release, checkAlive, onLost). */
export interface LeaseOptions extends Omit<AcquireOptions, "waitMs"> {
  /** How many times `acquire()` retries while another holder has the resource. Default 3. */
  acquireRetries?: number;
  /** Milliseconds between those retries, with a random jitter of up to 10 %. Default 200. */
  acquireRetryDelayMs?: number;
}

/** Options of a client. */
export interface ClientOptions {
  /** The tenant whose resources these are; part of every key. Default `default`. */
  namespace?: string;
  /** Identity of this process incarnation, shown to others. Default `<host>-<pid>-<random>`. */
  holder?: string;
  /** A pino logger or anything of its shape. Default: silent. */
  logger?: Env["logger"];
  /** Defaults for every lease of this client. */
  defaults?: AcquireOptions;
  /** How long `close()` waits for the work to end before it releases. Default 5,000. */
  graceMs?: number;
  /** Clock, randomness and logger, for tests and simulation. Default: the real ones. */
  env?: Partial<Env>;
}

export interface ResolvedOptions {
  readonly ttlMs: number;
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
  readonly metadata: string | undefined;
  readonly autoRenew: boolean;
  readonly renewIntervalMs: number;
  readonly marginMs: number;
  readonly driftRatio: number;
  readonly stopOnRenewError: boolean;
}

/** Below this, timers and networks are too coarse to tell a live lease from a dead one. */
const SHORTEST_TTL_MS = 100;
/** Renewals are moved by this ratio either way. */
export const RENEW_JITTER_RATIO = 0.1;

const KNOWN: Readonly<Record<keyof AcquireOptions, true>> = {
  ttlMs: true,
  waitMs: true,
  signal: true,
  metadata: true,
  autoRenew: true,
  renewIntervalMs: true,
  stopOnRenewError: true,
  marginMs: true,
  driftRatio: true,
};

/**
 * Fills in the defaults and checks every value, alone and together.
 * @throws InvalidOptionError naming the option and the remedy
 */
export function resolveOptions(
  options: AcquireOptions,
  defaults: AcquireOptions,
  ttl: Capabilities["ttl"],
): ResolvedOptions {
  checkKnown(options, KNOWN);
  const merged = { ...defaults, ...withoutUndefined(options) };
  const ttlMs = merged.ttlMs ?? Math.min(30_000, ttl.maxMs);
  checkTtl(ttlMs, ttl);
  const waitMs = merged.waitMs ?? Number.POSITIVE_INFINITY;
  checkNumber("waitMs", waitMs, 0, Number.POSITIVE_INFINITY);
  const marginMs = merged.marginMs ?? 10;
  checkNumber("marginMs", marginMs, 0, ttlMs);
  const driftRatio = merged.driftRatio ?? 0.01;
  checkNumber("driftRatio", driftRatio, 0, 0.5);
  // Of the ttl in whole milliseconds, a third is never zero: the shortest ttl is 100.
  const renewIntervalMs = merged.renewIntervalMs ?? Math.floor(ttlMs / 3);
  checkNumber("renewIntervalMs", renewIntervalMs, 1, ttlMs);
  const trustMs = ttlMs * (1 - driftRatio) - marginMs;
  const latestRenewMs = renewIntervalMs * (1 + RENEW_JITTER_RATIO);
  if (latestRenewMs >= trustMs) {
    throw new InvalidOptionError(
      "renewIntervalMs",
      `(${renewIntervalMs}, up to ${latestRenewMs.toFixed(0)} with jitter) must be shorter than the trusted time ` +
        `ttlMs x (1 - driftRatio) - marginMs = ${trustMs.toFixed(0)}: raise ttlMs, or lower renewIntervalMs, marginMs or driftRatio`,
    );
  }
  if (merged.signal !== undefined && !(merged.signal instanceof AbortSignal)) {
    throw new InvalidOptionError("signal", "must be an AbortSignal");
  }
  return {
    ttlMs,
    waitMs,
    signal: merged.signal,
    metadata: merged.metadata && encodeMetadata(merged.metadata),
    autoRenew: merged.autoRenew ?? true,
    renewIntervalMs,
    marginMs,
    driftRatio,
    stopOnRenewError: merged.stopOnRenewError ?? false,
  };
}

/** @throws InvalidOptionError */
export function checkTtl(ttlMs: number, { minMs, maxMs }: Capabilities["ttl"]): void {
  checkInteger("ttlMs", ttlMs, Math.max(SHORTEST_TTL_MS, minMs), maxMs);
}

/**
 * A misspelt option would be its default, unnoticed.
 * @throws InvalidOptionError naming it
 */
export function checkKnown(options: object, known: Readonly<Record<string, true>>): void {
  for (const name of Object.keys(options)) {
    if (Object.hasOwn(known, name)) continue;
    const names = Object.keys(known).join(", ");
    throw new InvalidOptionError(name, `is not an option; known are ${names}`);
  }
}

/**
 * Checks what is asked of a list.
 * @throws InvalidOptionError
 */
export function checkPage(
  query: { readonly limit?: number },
  filters: Readonly<Record<string, true>>,
): void {
  checkKnown(query, { ...filters, limit: true, cursor: true });
  if (query.limit !== undefined) checkInteger("limit", query.limit, 1, Number.MAX_SAFE_INTEGER);
}

/** @throws InvalidOptionError */
export function checkInteger(path: string, value: unknown, min: number, max: number): void {
  checkNumber(path, value, min, max);
  if (!Number.isInteger(value)) {
    throw new InvalidOptionError(path, `must be a whole number, not ${describe(value)}`);
  }
}

/** @throws InvalidOptionError */
export function checkNumber(path: string, value: unknown, min: number, max: number): void {
  if (typeof value !== "number" || Number.isNaN(value)) {
    throw new InvalidOptionError(path, `must be a number, not ${describe(value)}`);
  }
  if (value < min || value > max) {
    throw new InvalidOptionError(path, `must be from ${min} to ${max}, not ${value}`);
  }
}

function describe(value: unknown): string {
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}

/** The options that are given: JavaScript callers pass `undefined` for "the default". */
export function withoutUndefined<T extends object>(options: T): Partial<T> {
  return Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined),
  ) as Partial<T>;
}
