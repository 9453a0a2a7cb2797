/** The limits of kinds and queues of one namespace, as programs declare and use them. */
import { Backoff, type Env, sleep } from "../env/index.js";
import {
  checkInteger,
  checkKnown,
  checkName,
  checkObject,
  InvalidOptionError,
  StoreUnavailableError,
} from "../lease/index.js";
import type {
  DeclareLimitOutcome,
  LimitKey,
  LimitScope,
  LimitView,
  TaskLimit,
  TaskLimits,
} from "./limits-port.js";
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

/** Called by `tasks`. Apart from the class, whose public type shows no constructor. */
export let limitsOver: (
  caller: { readonly namespace: string; readonly holder: string },
  store: TaskLimits | undefined,
) => Limits;

const RETRY = { firstMs: 100, longestMs: 5_000 };

/**
 * The limits of kinds and queues: `leasehold.tasks.limits`. Workers declare those of `defineTask` and of their options.
 * @example
 * ```ts
 * import { connect } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const { limits } = leasehold.tasks;
 * await limits.declare("kind", "report", { running: 5, rate: { limit: 100, perMs: 60_000 } });
 * for (const { scope, name, live, usedUpUntil } of await limits.list()) {
 *   console.log(scope, name, live, usedUpUntil);
 * }
 * console.log(await limits.remove("kind", "report"));
 * await leasehold.close();
 * ```
 */
export class Limits {
  static {
    limitsOver = (caller, store) => new Limits(caller, store);
  }

  readonly #namespace: string;
  readonly #holder: string;
  readonly #kept: TaskLimits | undefined;

  private constructor(
    { namespace, holder }: { readonly namespace: string; readonly holder: string },
    store: TaskLimits | undefined,
  ) {
    [this.#namespace, this.#holder, this.#kept] = [namespace, holder, store];
  }

  /**
   * Declares the limit of a kind or a queue: the newest declaration counts. It holds for tasks that start later.
   * @returns `none` if it was so already
   * @throws INVALID_OPTION; STORE_UNAVAILABLE, also if the namespace has 1,000 limits
   */
  async declare(
    scope: LimitScope,
    name: string,
    options: LimitOptions,
  ): Promise<"added" | "changed" | "none"> {
    checkLimitKey({ scope, name });
    const limit = limitOf("limit", options);
    const key = { namespace: this.#namespace, scope, name };
    return changeOf(await this.#store.declare({ ...key, limit, by: this.#holder }));
  }

  /**
   * Lists the limits with what they keep back now, by scope and name.
   * @throws STORE_UNAVAILABLE, INVALID_OPTION
   */
  async list(): Promise<readonly LimitView[]> {
    return this.#store.list(this.#namespace);
  }

  /**
   * Removes a limit. A worker that declares it adds it again when it starts.
   * @returns whether there was one
   * @throws STORE_UNAVAILABLE, INVALID_OPTION
   */
  async remove(scope: LimitScope, name: string): Promise<boolean> {
    checkLimitKey({ scope, name });
    return this.#store.remove({ namespace: this.#namespace, scope, name });
  }

  get #store(): TaskLimits {
    return keptBy(this.#kept);
  }
}

/** @throws INVALID_OPTION if the store keeps none */
function keptBy(limits: TaskLimits | undefined): TaskLimits {
  if (limits) return limits;
  throw new InvalidOptionError(
    "this store",
    "keeps no limits of tasks: PostgreSQL, PGlite, memory and a server of this version keep them",
  );
}

/** @throws what failed */
function changeOf(outcome: DeclareLimitOutcome): "added" | "changed" | "none" {
  if (outcome.status === "failed") throw outcome.error;
  if (outcome.status === "declared") return outcome.change;
  throw new StoreUnavailableError("the namespace has as many limits as it may have", {
    outcome: "none",
    refusedBy: "limit",
  });
}

/** The limits that a worker declares when it starts. */
export interface WorkerLimits {
  readonly limits: TaskLimits;
  readonly declared: readonly (Pick<LimitKey, "scope" | "name"> & { readonly limit: TaskLimit })[];
}

/**
 * Null if it declares none.
 * @param handlers the limits of their kinds
 * @throws INVALID_OPTION
 */
export function workerLimits(
  limits: TaskLimits | undefined,
  handlers: readonly { readonly kind: string; readonly limit?: TaskLimit | undefined }[],
  queueLimits: Readonly<Record<string, LimitOptions>>,
): WorkerLimits | null {
  checkObject("queueLimits", queueLimits);
  const ofKinds = handlers.flatMap(({ kind, limit }) =>
    limit ? [{ scope: "kind", name: kind, limit } as const] : [],
  );
  const ofQueues = Object.entries(queueLimits).map(([name, options]) => {
    checkLimitKey({ scope: "queue", name });
    return { scope: "queue", name, limit: limitOf(`queueLimits.${name}`, options) } as const;
  });
  const declared = [...ofKinds, ...ofQueues];
  return declared.length === 0 ? null : { limits: keptBy(limits), declared };
}

/** Declares them, and tries again until it has or the signal aborts. */
export async function declareAll(
  { limits, declared }: WorkerLimits,
  { namespace, holder, env }: { namespace: string; holder: string; env: Env },
  signal: AbortSignal,
): Promise<void> {
  const { clock, random, logger } = env;
  const backoff = new Backoff(random, RETRY);
  for (const limit of declared) {
    while (!signal.aborted) {
      try {
        changeOf(await limits.declare({ ...limit, namespace, by: holder }));
        break;
      } catch (err) {
        const { scope, name } = limit;
        logger.warn({ err, scope, name }, "could not declare the limit of tasks; trying again");
        await sleep(clock, backoff.nextMs(), { signal }).catch(() => {});
      }
    }
  }
}
