/** The four operations of a store, over what its engine offers. */
import { type Clock, isoTime, systemClock } from "../env/index.js";
import type {
  AcquireOutcome,
  AcquireRequest,
  CallOptions,
  Failed,
  Key,
  LeaseStore,
  ReleaseOutcome,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
} from "../lease/index.js";
import { decide, decideAlone, type Step } from "./deciding.js";
import type { Engine, Lean, Transaction, Transactions } from "./engine.js";
import { acquireStep, releaseStep, renewStep, revokeStep } from "./lease-steps.js";

/** What the kit does of a store. The store adds `get`, `list`, `watch`, `collect` and `close`. */
export type LeaseOperations = Pick<LeaseStore, "acquire" | "renew" | "release" | "revoke">;

/** What the operations of a store need beside its engine. */
export interface OperationsOptions {
  /** The store's time as text, for people; null: it has none. Default: as ISO 8601, for times in milliseconds since 1970. */
  readonly textOf?: (storeMs: number) => string | null;
  /** Measures timeouts. Default: that of the process. */
  readonly clock?: Clock;
  /** Of a call that states none. Default 5,000 ms. */
  readonly timeoutMs?: number;
}

/**
 * Statements of an engine that decide what is simple of a batch, in less time than a load and a save. Null: it has none, or none
 * that suits these requests. What they decide must be what the rules would.
 */
export interface LeanOperations<Version> {
  readonly acquire: (
    requests: readonly AcquireRequest[],
    options: CallOptions | undefined,
  ) => Lean<AcquireRequest, AcquireOutcome, Version> | null;
  readonly renew: Lean<RenewRequest, RenewOutcome, Version> | null;
  readonly release: Lean<ReleaseRequest, ReleaseOutcome, Version> | null;
}

const NOT_LEAN: LeanOperations<never> = { acquire: () => null, renew: null, release: null };
const TIMEOUT_MS = 5_000;

/**
 * For an engine whose keys others may change between load and save: a change is saved if the key is as it was loaded, and
 * decided anew otherwise.
 * @param lean statements that come before the load, for batches with each key once. Default: none
 * @example
 * ```ts
 * import { EMPTY_QUEUE, mayStillSave, operationsOn } from "leasehold/port";
 *
 * const records = new Map();
 * const recordOf = ({ resource }) => records.get(resource) ?? null;
 * const { acquire } = operationsOn({
 *   async load(keys) {
 *     const nowMs = Date.now();
 *     const free = { isPaused: false, leastToken: nowMs * 1_000, queue: EMPTY_QUEUE };
 *     const loaded = keys.map((key) => ({ ...free, record: recordOf(key), version: recordOf(key) }));
 *     return { nowMs, keys: loaded };
 *   },
 *   async save(changes) {
 *     return changes.map((change) => {
 *       const record = recordOf(change);
 *       const isSaved = record === change.version && mayStillSave(change, { record, tokenFloor: 0 }, Date.now());
 *       if (isSaved && change.record) records.set(change.resource, change.record);
 *       return isSaved;
 *     });
 *   },
 *   failed: (error) => ({ status: "failed", applied: "maybe", retryable: true, error }),
 * });
 * const grant = { namespace: "default", resource: "report", leaseId: "a".repeat(48) };
 * const [outcome] = await acquire([{ ...grant, holder: "web-1", ttlMs: 30_000 }]);
 * console.log(outcome.status);
 * ```
 */
export function operationsOn<Version>(
  engine: Engine<Version>,
  {
    textOf = isoTime,
    clock = systemClock,
    timeoutMs: longestMs = TIMEOUT_MS,
  }: OperationsOptions = {},
  lean: LeanOperations<Version> = NOT_LEAN,
): LeaseOperations {
  const run = <Asked extends Key, Outcome extends { readonly status: string }>(
    requests: readonly Asked[],
    needsQueue: boolean,
    { timeoutMs = longestMs }: CallOptions = {},
    step: Step<Asked, Outcome>,
    lean: Lean<Asked, Outcome, Version> | null = null,
  ): Promise<(Outcome | Failed)[]> =>
    decide(engine, clock, requests, { needsQueue, timeoutMs, lean }, step);
  const renew = renewStep(textOf);
  return {
    acquire(requests, options) {
      const needsQueue = requests.some(({ queueMs }) => queueMs);
      const step = acquireStep(textOf, options?.returnReplaced ?? false);
      return run(requests, needsQueue, options, step, lean.acquire(requests, options));
    },
    renew: (requests, options) => run(requests, false, options, renew, lean.renew),
    release: (requests, options) => run(requests, true, options, releaseStep, lean.release),
    revoke: (requests, options) => run(requests, true, options, revokeStep),
  };
}

/**
 * For an engine with one writer: a batch is one transaction, and no one else changes its keys meanwhile.
 * @example
 * ```ts
 * import { EMPTY_QUEUE, operationsIn } from "leasehold/port";
 *
 * const records = new Map();
 * const transaction = {
 *   nowMs: Date.now(),
 *   load: ({ resource }) => ({
 *     record: records.get(resource) ?? null,
 *     version: null,
 *     isPaused: false,
 *     leastToken: 1,
 *     queue: EMPTY_QUEUE,
 *   }),
 *   save({ resource, record }) {
 *     if (record) records.set(resource, record);
 *   },
 * };
 * const operations = operationsIn({
 *   transact: (work) => work(transaction),
 *   failed: (error) => ({ status: "failed", applied: "no", retryable: true, error }),
 * });
 * console.log(Object.keys(operations).join(" "));
 * ```
 */
export function operationsIn(
  engine: Transactions,
  { textOf = isoTime }: Pick<OperationsOptions, "textOf"> = {},
): LeaseOperations {
  const run = async <Asked extends Key, Outcome>(
    requests: readonly Asked[],
    options: CallOptions | undefined,
    step: Step<Asked, Outcome>,
  ): Promise<(Outcome | Failed)[]> => {
    try {
      const work = (transaction: Transaction) => decideAlone(transaction, requests, step);
      const outcomes = engine.transact(work, options?.timeoutMs);
      // A promise that need not be waited for costs as much as the grant.
      return outcomes instanceof Promise ? await outcomes : outcomes;
    } catch (error) {
      const failed = engine.failed(error);
      return requests.map(() => failed);
    }
  };
  const [acquire, replacing] = [acquireStep(textOf, false), acquireStep(textOf, true)];
  const renew = renewStep(textOf);
  return {
    acquire: (requests, options) =>
      run(requests, options, options?.returnReplaced ? replacing : acquire),
    renew: (requests, options) => run(requests, options, renew),
    release: (requests, options) => run(requests, options, releaseStep),
    revoke: (requests, options) => run(requests, options, revokeStep),
  };
}
