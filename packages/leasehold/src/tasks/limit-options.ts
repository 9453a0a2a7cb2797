/** Limits of kinds and queues, as programs declare them. */
import {
  checkInteger,
  checkKnown,
  checkName,
  checkObject,
  InvalidOptionError,
} from "../core/index.js";
import type { LimitKey, LimitScope, TaskLimit } from "./limits-port.js";
import type { Rate } from "./values.js";

/** A limit of all tasks of a kind or a queue, in the whole fleet: `running`, `rate` or both. */
export interface LimitOptions {
  /** At most this many tasks have a live lease at any time, 1 to 100,000. Default: any number. */
  running?: number;
  /** At most `limit` tasks start in each window of `perMs` milliseconds. Default: as fast as they can. */
  rate?: Rate;
}

export const MOST_RUNNING = 100_000;
export const MOST_STARTS = 1_000_000;
export const LONGEST_WINDOW_MS = 86_400_000;

/** @throws InvalidOptionError */
export function limitOf(path: string, options: LimitOptions): TaskLimit {
  checkObject(path, options);
  checkKnown(options, { running: true, rate: true }, path);
  const { running, rate } = options;
  if (running === undefined && rate === undefined) {
    throw new InvalidOptionError(path, "must have running or rate");
  }
  if (running !== undefined) checkInteger(`${path}.running`, running, 1, MOST_RUNNING);
  if (rate !== undefined) checkRate(`${path}.rate`, rate);
  return { running: running ?? null, rate: rate ?? null };
}

/** @throws InvalidOptionError */
export function checkRate(path: string, rate: Rate): void {
  checkObject(path, rate);
  checkKnown(rate, { limit: true, perMs: true }, path);
  checkInteger(`${path}.limit`, rate.limit, 1, MOST_STARTS);
  checkInteger(`${path}.perMs`, rate.perMs, 1, LONGEST_WINDOW_MS);
}

/** @throws InvalidOptionError */
export function checkLimitKey({ scope, name }: Pick<LimitKey, "scope" | "name">): void {
  if (!LIMIT_SCOPES.includes(scope)) {
    throw new InvalidOptionError("scope", `must be one of ${LIMIT_SCOPES.join(", ")}`);
  }
  checkName("name", name);
}

export const LIMIT_SCOPES = ["kind", "queue"] as const satisfies readonly LimitScope[];
