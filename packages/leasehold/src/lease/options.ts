/** Options of a client and of one lease: defaults, ranges and relations, checked once. */
import { type Env, isPromise, type Logger, propertyOf, type Telemetry } from "../env/index.js";
import { InvalidOptionError } from "./errors.js";
import { encodeMetadata } from "./names.js";
import type { Capabilities, LeaseState } from "./port.js";

/** How one lease is taken and kept. */
export interface AcquireOptions {
  /**
   * Milliseconds until a grant expires unless it is renewed; a positive integer, at least 100.
   * Default 30,000, or what the store allows that is nearest: long enough to live through a slow database or a long garbage collection,
   * short enough that work of a dead process is taken over within half a minute.
   */
  ttlMs?: number;
  /**
   * How long `acquire` and `run` wait for a held resource, in milliseconds. Default Infinity: a lock
   * is waited for; `signal` ends the wait earlier. The `try` forms never wait.
   */
  waitMs?: number;
  /** Gives up waiting; the call rejects with the signal's own reason. Default: none, so only `waitMs` ends the wait. */
  signal?: AbortSignal;
  /** Shown to people beside the lease; at most 4 KiB. Default: none. */
  metadata?: Record<string, string>;
  /** Renew in the background until released or lost. Default true. */
  autoRenew?: boolean;
  /**
   * Milliseconds between renewals, each moved by up to 10 % at random so that a fleet does not act
   * in step. Default a third of `ttlMs`: two renewals may fail before the lease is in danger.
   * Has no effect with `autoRenew: false`.
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
  /** A pino logger, or an object with the same methods. Default: warnings and errors are warnings of the process, each once. */
  logger?: Env["logger"];
  /** Defaults for every lease of this client. */
  defaults?: AcquireOptions;
  /**
   * How long `close()` waits, in milliseconds, for the work to end and for leases to be released. Default 5,000. Work of
   * `run` that still runs then keeps its lease until it expires; the log says for how long the resource stays held.
   */
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
export const SHORTEST_TTL_MS = 100;
/** Renewals are moved by this ratio either way. */
export const RENEW_JITTER_RATIO = 0.1;

/** The options of a lease whose wait its owner ends: an election's, a singleton's, a shard's. */
export const HOLDING: Readonly<Record<Exclude<keyof AcquireOptions, "waitMs" | "signal">, true>> = {
  ttlMs: true,
  metadata: true,
  autoRenew: true,
  renewIntervalMs: true,
  stopOnRenewError: true,
  marginMs: true,
  driftRatio: true,
};
export const LEASE_STATES: readonly LeaseState[] = ["live", "expired", "released", "revoked"];
const KNOWN: Readonly<Record<keyof AcquireOptions, true>> = {
  ...HOLDING,
  waitMs: true,
  signal: true,
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
  const { ttlMs = defaultTtlMs(ttl) } = merged;
  checkTtl(ttlMs, ttl);
  const { waitMs = Number.POSITIVE_INFINITY, marginMs = 10, driftRatio = 0.01 } = merged;
  checkNumber("waitMs", waitMs, 0, Number.POSITIVE_INFINITY);
  checkNumber("marginMs", marginMs, 0, ttlMs);
  checkNumber("driftRatio", driftRatio, 0, 0.5);
  // Of the ttl in whole milliseconds, a third is never zero: the shortest ttl is 100.
  const { renewIntervalMs = Math.floor(ttlMs / 3) } = merged;
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
  if (merged.signal !== undefined) checkSignal(merged.signal);
  checkOptional("boolean", merged, ["autoRenew", "stopOnRenewError"]);
  if (merged.metadata !== undefined) checkObject("metadata", merged.metadata);
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

/**
 * The TTL of a request that has none: the usual one, or what the store allows that is nearest.
 * @param usualMs from 100
 */
export function defaultTtlMs(
  { minMs, maxMs }: Pick<Capabilities["ttl"], "minMs" | "maxMs">,
  usualMs = 30_000,
): number {
  return Math.min(maxMs, Math.max(minMs, usualMs));
}

/** @throws InvalidOptionError */
export function checkTtl(ttlMs: number, { minMs, maxMs }: Capabilities["ttl"]): void {
  checkInteger("ttlMs", ttlMs, Math.max(SHORTEST_TTL_MS, minMs), maxMs);
}

/**
 * A misspelt option would be its default, unnoticed.
 * @throws InvalidOptionError naming it
 */
export function checkKnown(
  options: unknown,
  known: Readonly<Record<string, unknown>>,
  path = "options",
): asserts options is object {
  checkObject(path, options);
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
  query: unknown,
  filters: Readonly<Record<string, true>>,
  states: readonly string[],
): void {
  checkKnown(query, { ...filters, limit: true, cursor: true });
  const { limit, states: wanted } = query as { limit?: unknown; states?: unknown };
  if (limit !== undefined) checkInteger("limit", limit, 1, Number.MAX_SAFE_INTEGER);
  checkOptional("string", query, ["cursor", "prefix", "queue", "kind"]);
  checkOptional("boolean", query, ["renewedOnly"]);
  if (wanted === undefined) return;
  checkArray("states", wanted);
  for (const [at, state] of wanted.entries()) {
    if (typeof state === "string" && states.includes(state)) continue;
    throw new InvalidOptionError(`states.${at}`, `must be one of ${states.join(", ")}`);
  }
}

/** @throws InvalidOptionError unless the value is an object, as options are */
export function checkObject(path: string, value: unknown): asserts value is object {
  // It has no properties of its own, so it would pass for options that are all left out.
  if (value instanceof AbortSignal) {
    throw new InvalidOptionError(path, "must be an object, got an AbortSignal: pass { signal }");
  }
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return;
  const order = typeof value === "function" ? ": they come before the function" : "";
  throw new InvalidOptionError(path, `must be an object, got ${kindOf(value)}${order}`);
}

/** @throws InvalidOptionError */
export function checkArray(path: string, value: unknown): asserts value is readonly unknown[] {
  if (Array.isArray(value)) return;
  throw new InvalidOptionError(path, `must be an array, got ${kindOf(value)}`);
}

/** @throws InvalidOptionError, also for a generator function: its call would run nothing, and look like success */
export function checkFunction(
  path: string,
  value: unknown,
): asserts value is (...args: never) => unknown {
  const tag = propertyOf(value, Symbol.toStringTag);
  const isGenerator = tag === "GeneratorFunction" || tag === "AsyncGeneratorFunction";
  if (typeof value === "function" && !isGenerator) return;
  const got = isGenerator ? "a generator function: write async () => {...}" : kindOf(value);
  throw new InvalidOptionError(path, `must be a function, got ${got}`);
}

/**
 * Checks what a function of the caller has returned, which nothing awaits.
 * @param what what it must return
 * @throws InvalidOptionError for a promise. Its rejection is ignored: unhandled, it would end the process.
 */
export function checkNotPromise(path: string, returned: unknown, what: string): void {
  if (!isPromise(returned)) return;
  Promise.resolve(returned).catch(() => {});
  const remedy = "write a function that is not async";
  throw new InvalidOptionError(path, `must return ${what}, but it returned a promise: ${remedy}`);
}

/** @throws InvalidOptionError */
export function checkSignal(signal: unknown): asserts signal is AbortSignal {
  if (signal instanceof AbortSignal) return;
  throw new InvalidOptionError("signal", `must be an AbortSignal, got ${kindOf(signal)}`);
}

/** @throws InvalidOptionError */
export function checkUrl(url: unknown): void {
  if ((typeof url === "string" && url !== "") || url instanceof URL) return;
  throw new InvalidOptionError("url", `must be a URL, got ${kindOf(url)}: is DATABASE_URL set?`);
}

/**
 * Checks an object of another package by the methods that a store calls.
 * @throws InvalidOptionError
 */
export function checkMethods(
  path: string,
  value: unknown,
  methods: readonly string[],
  expected: string,
): void {
  const object = Object(value) as object;
  const missing = methods.filter((name) => typeof Reflect.get(object, name) !== "function");
  if (missing.length === 0) return;
  const without = missing.length < methods.length ? ` without ${missing.join(", ")}` : "";
  throw new InvalidOptionError(path, `must be ${expected}, got ${kindOf(value)}${without}`);
}

/**
 * Checks what a caller passes of the outside world: what lacks a method would fail only at its first use.
 * @throws InvalidOptionError
 */
export function checkOutside({ logger, env }: { logger?: unknown; env?: unknown }): void {
  const within = Object(env) as { logger?: unknown; telemetry?: unknown };
  const given = [
    ["logger", logger, LOGGER_METHODS],
    ["env.logger", within.logger, LOGGER_METHODS],
    ["env.telemetry", within.telemetry, TELEMETRY_METHODS],
  ] as const;
  for (const [path, value, methods] of given) {
    if (value === undefined) continue;
    checkMethods(path, value, methods, `an object with the methods ${methods.join(", ")}`);
  }
}

const LOGGER_METHODS = ["debug", "info", "warn", "error"] satisfies (keyof Logger)[];
const TELEMETRY_METHODS = [
  "measured",
  "count",
  "change",
  "measure",
  "observe",
  "tally",
  "span",
  "here",
  "within",
  "outgoing",
  "incoming",
] satisfies (keyof Telemetry)[];

/**
 * Checks those of the named options that are given.
 * @throws InvalidOptionError
 */
export function checkOptional(
  type: "boolean" | "string",
  options: object,
  names: readonly string[],
): void {
  for (const name of names) {
    const value: unknown = Reflect.get(options, name);
    if (value === undefined || typeof value === type) continue;
    throw new InvalidOptionError(name, `must be a ${type}, got ${kindOf(value)}`);
  }
}

/** What a caller passed, without its contents, which may be secret. */
export function kindOf(value: unknown): string {
  if (value === undefined || value === null) return String(value);
  if (value === "") return "an empty string";
  if (Array.isArray(value)) return "an array";
  if (typeof value === "number" || typeof value === "boolean")
    return `the ${typeof value} ${value}`;
  return typeof value === "object" ? "an object" : `a ${typeof value}`;
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
  if (typeof value === "string") return JSON.stringify(value);
  return typeof value === "number" ? String(value) : kindOf(value);
}

/** The options that are given: JavaScript callers pass `undefined` for "the default". */
export function withoutUndefined<T extends object>(options: T): Partial<T> {
  return Object.fromEntries(
    Object.entries(options).filter(([, value]) => value !== undefined),
  ) as Partial<T>;
}

/** What times must be: ISO 8601 has four digits for the year, and no store keeps fewer. */
export const TIMES = "a time in the years 1 to 9999";
const FIRST_MS = Date.parse("0001-01-01T00:00:00Z");
const LAST_MS = Date.parse("9999-12-31T23:59:59.999Z");

/** @param atMs since the Unix epoch; NaN is no time */
export function isTime(atMs: number): boolean {
  return atMs >= FIRST_MS && atMs <= LAST_MS;
}

const INSTANT =
  /^([+-]?\d{4,6}-\d\d-(\d\d))T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;

/**
 * What a text must be that is refused as a time.
 * @param otherwise unless only its year or day is wrong
 */
export function timeExpected(text: string, otherwise: string): string {
  const [, date = "", day] = INSTANT.exec(text) ?? [];
  if (date === "") return otherwise;
  if (!/^(?!0000)\d{4}-/.test(date)) return TIMES;
  // JavaScript takes the 31st of February for a day in March.
  const isDay = new Date(date).getUTCDate() === Number(day);
  return isDay ? otherwise : `a time on a day of the calendar, which ${date} is not`;
}

/** @throws InvalidOptionError */
export function checkTime(path: string, atMs: number): void {
  if (!isTime(atMs)) throw new InvalidOptionError(path, `must be ${TIMES}`);
}
