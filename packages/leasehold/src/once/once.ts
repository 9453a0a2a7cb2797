/**
 * The work of a key succeeds at most once, however many callers there are.
 *
 *   once ──▶ read the record ──▶ done: answered
 *                │
 *                └── none ──▶ take the lease on `once:KEY` ──▶ read again ──▶ done, failed: answered
 *                                 ▲       │ held                   │
 *                                 │       └─▶ wait                 ├── too early: release, and wait until it is time
 *                                 │            └─ done meanwhile   ▼
 *                                 │               by another: answered
 *                                 └──── failed ◀──────────────── work ──▶ succeed: recorded, and the lease ends
 *
 * Failure cases.
 * *The process dies in its work*: its lease expires, and the next caller works. What the work had done elsewhere until then
 * happens again; what it did in one transaction with `lease.succeed` does not.
 * *The process is paused for longer than its lease lasts*: another one works meanwhile. The token is in the statement that
 * records, so that only one of them is recorded; the other one gets ONCE_DONE or LEASE_LOST.
 * *The reply of the record is lost*: it is asked again, and answered with the record of its own token.
 * *The record is read before another one commits*: it is read again under the lease, which the other one must have ended.
 */
import { type Env, type LabelsOf, reasonOf, sleep } from "../env/index.js";
import {
  type AcquireOptions,
  type CallOptions,
  checkFunction,
  checkInteger,
  checkKnown,
  checkNewName,
  checkNumber,
  type Failed,
  HeldLease,
  InvalidOptionError,
  type LeaseClient,
  LeaseLostError,
  LeaseUnavailableError,
  OnceDoneError,
  OnceFailedError,
  Retrying,
  StoreUnavailableError,
  startCollector,
  withoutUndefined,
} from "../lease/index.js";
import { toJson } from "../tasks/json.js";
import { byteLength } from "../tasks/payloads.js";
import type { Json } from "../tasks/port.js";
import { type OnceLease, onceLease, throwUnlessRecorded } from "./lease.js";
import {
  KEY_BYTES,
  type OnceGrant,
  type OnceStore,
  type OnceView,
  resourceOf,
  VALUE_BYTES,
} from "./port.js";

/** How the work of a key is done. */
export interface OnceOptions
  extends Pick<AcquireOptions, "ttlMs" | "waitMs" | "marginMs" | "signal"> {
  /**
   * How long a success counts, in milliseconds, from 1. Default: for ever. After that the key is as if it had never been
   * used.
   */
  keepMs?: number;
  /** After so many failures no caller tries again, from 1. Default: there is no such number. */
  maxAttempts?: number;
  /** How long the next attempt waits after a failure, in milliseconds. Default 0: the next caller tries at once. */
  retryDelayMs?: number;
}

/** The result of `once`: of the caller that did the work, or of another caller's success. */
export type OnceResult<T> =
  | { readonly ran: true; readonly value: T }
  | {
      readonly ran: false;
      /** What the other one's work returned; null if it could not be kept. */
      readonly value: T | null;
      /** When it was done, by the store's clock, as ISO 8601. */
      readonly at: string;
      /** The holder name of the client that did it. */
      readonly by: string;
    };

/**
 * The work of a key. It should stop when `lease.signal` aborts.
 *
 * A process that dies in its work leaves a key that is not done, and the work runs again. So an effect elsewhere happens
 * until it is recorded: pass `lease.token`, or the key as an idempotency key, so that a second one is refused or merged
 * there. In the database that keeps the record, `lease.succeed(value, { client })` makes the effect happen exactly once.
 * @returns what later callers get: JSON of at most 64 KB. Anything else is recorded as done without a value, and the call
 *   rejects with INVALID_OPTION
 */
export type OnceWork<T> = (lease: OnceLease) => T | PromiseLike<T>;

const OPTIONS: Readonly<Record<keyof OnceOptions, true>> = {
  ttlMs: true,
  waitMs: true,
  marginMs: true,
  signal: true,
  keepMs: true,
  maxAttempts: true,
  retryDelayMs: true,
};
/** A record whose answer was lost is asked for again for this time. */
const RECORD_BUDGET_MS = 10_000;
const RECORD_TIMEOUT_MS = 5_000;
/** The end of the wait for a lease: another caller has succeeded. */
const ANSWERED = new Error("another caller has done it");

/** The next attempt is this far away. */
interface TooEarly {
  readonly nextInMs: number;
  readonly by: string;
}

type Outcome = LabelsOf<"leasehold.once.runs">["outcome"];

/** One call of `once`. */
class Once<T> {
  readonly #env: Env;
  readonly #leases: LeaseClient;
  readonly #store: OnceStore;
  readonly #key: string;
  readonly #options: OnceOptions;
  readonly #work: OnceWork<T>;
  #hasBegun = false;
  #isRecorded = false;

  constructor(
    leases: LeaseClient,
    store: OnceStore,
    key: string,
    options: OnceOptions,
    work: OnceWork<T>,
  ) {
    [this.#env, this.#leases, this.#store] = [leases.env, leases, store];
    [this.#key, this.#options, this.#work] = [key, options, work];
  }

  async result(): Promise<OnceResult<T>> {
    const count = (outcome: Outcome) =>
      this.#env.telemetry?.count("leasehold.once.runs", { outcome });
    try {
      const result = await this.#result();
      count(result.ran ? "ran" : "answered");
      return result;
    } catch (error) {
      count(this.#outcomeOf(error));
      throw error;
    }
  }

  #outcomeOf(error: unknown): Outcome {
    if (!this.#hasBegun) return "refused";
    if (this.#isRecorded) return "ran";
    return error instanceof OnceDoneError || error instanceof LeaseLostError ? "lost" : "failed";
  }

  async #result(): Promise<OnceResult<T>> {
    const { clock } = this.#env;
    const { waitMs = Number.POSITIVE_INFINITY, signal } = this.#options;
    const deadlineMs = clock.monotonic() + waitMs;
    const answered = await this.#answer();
    if (answered) return answered;
    for (;;) {
      const leftMs = Math.max(0, deadlineMs - clock.monotonic());
      const attempt = await this.#attempt(leftMs);
      if (!("nextInMs" in attempt)) return attempt;
      const { nextInMs, by } = attempt;
      if (clock.monotonic() + nextInMs > deadlineMs) {
        throw new LeaseUnavailableError(resourceOf(this.#key), waitMs, by);
      }
      await sleep(clock, nextInMs, { ...(signal && { signal }) });
      const meanwhile = await this.#answer();
      if (meanwhile) return meanwhile;
    }
  }

  /** Works under the lease, or waits for the success of the caller that holds it. */
  async #attempt(waitMs: number): Promise<OnceResult<T> | TooEarly> {
    const { ttlMs, marginMs, signal } = this.#options;
    const terms = { ttlMs, marginMs };
    const resource = resourceOf(this.#key);
    let hasLease = false;
    const work = (lease: unknown) => {
      hasLease = true;
      return this.#underLease(lease);
    };
    try {
      const free = await this.#leases.tryRun(
        resource,
        withoutUndefined({ ...terms, signal }),
        work,
      );
      if (free.ran) return free.value;
    } catch (error) {
      // As for a held lease: a caller that waits also waits for a store that does not answer, or a server that refuses.
      const isWaited = error instanceof StoreUnavailableError && error.retryable;
      if (hasLease || waitMs === 0 || !isWaited) throw error;
    }
    const waiting = new AbortController();
    let answer: OnceResult<T> | null = null;
    const look = async () => {
      // Looks may end in another order than they began: one that found nothing takes no answer back.
      const found = answer ?? (await this.#answer());
      if (!found) return;
      answer = found;
      waiting.abort(ANSWERED);
    };
    const lookAgain = () =>
      void look().catch((err: unknown) => this.#env.logger.debug({ err }, "record not read"));
    const unlisten = this.#leases.listen(resource, lookAgain);
    const waited = signal ? AbortSignal.any([signal, waiting.signal]) : waiting.signal;
    try {
      // What was done between the attempt and the subscription.
      await look();
      const options = withoutUndefined({ ...terms, waitMs, signal: waited });
      // A caller of `once` is there to wait until another one has done the work.
      return await this.#leases.standBy(resource, options, work);
    } catch (error) {
      if (answer && error === ANSWERED) return answer;
      throw error;
    } finally {
      unlisten();
    }
  }

  async #underLease(lease: unknown): Promise<OnceResult<T> | TooEarly> {
    // Neither call accepts work without a lease.
    if (!(lease instanceof HeldLease)) throw new InvalidOptionError("source", "gives no leases");
    const record = await this.#read();
    const settled = this.#answerOf(record);
    if (settled) return settled;
    if (record && record.nextInMs > 0) return { nextInMs: record.nextInMs, by: record.by };
    let joined = false;
    const { keepMs = null } = this.#options;
    const [store, key, { namespace }] = [this.#store, this.#key, this.#leases];
    const recording = { store, namespace, key, keepMs };
    const shown = onceLease(lease, record?.failures ?? 0, recording, () => (joined = true));
    let value: T;
    this.#hasBegun = true;
    try {
      value = await this.#work(shown);
      if (joined) return await this.#committed(lease);
    } catch (error) {
      await this.#fail(lease, error);
      throw error;
    }
    await this.#succeed(lease, value);
    return { ran: true, value };
  }

  /** @throws an error if the transaction that has the record was rolled back */
  async #committed(lease: HeldLease): Promise<OnceResult<T>> {
    const record = await this.#read();
    if (record?.state === "done" && record.token === lease.token) {
      return { ran: true, value: record.value as T };
    }
    throw new InvalidOptionError(
      "work",
      "returned, but the transaction of lease.succeed() was not committed: return after COMMIT, and throw after ROLLBACK",
    );
  }

  async #succeed(lease: HeldLease, value: T): Promise<void> {
    let json: Json = null;
    let unkept: InvalidOptionError | undefined;
    try {
      json = toJson("value", value, VALUE_BYTES);
    } catch (error) {
      if (!(error instanceof InvalidOptionError)) throw error;
      unkept = error;
    }
    const { keepMs = null } = this.#options;
    const request = { ...this.#grant(lease), value: json, keepMs };
    const outcome = await this.#asked((options) => this.#store.succeed(request, options));
    throwUnlessRecorded(this.#key, outcome);
    this.#isRecorded = true;
    lease.finish();
    // The work is done, and counts. Its caller learns that the others will not get the value.
    if (unkept) {
      const { path, message } = unkept;
      const problem = message.slice(path.length + 1);
      throw new InvalidOptionError(path, `${problem}; the key counts as done, without a value`);
    }
  }

  async #fail(lease: HeldLease, error: unknown): Promise<void> {
    const { maxAttempts = null, retryDelayMs = 0 } = this.#options;
    const request = {
      ...this.#grant(lease),
      error: reasonOf(error),
      maxAttempts,
      retryDelayMs,
    };
    const outcome = await this.#asked((options) => this.#store.fail(request, options));
    if (outcome.status === "recorded") return lease.finish();
    const err = outcome.status === "failed" ? outcome.error : undefined;
    // The work's own error goes to the caller.
    this.#env.logger.warn({ key: this.#key, ...(err && { err }) }, "failure not recorded");
  }

  #grant(lease: HeldLease): OnceGrant {
    const { namespace } = this.#leases;
    return { namespace, key: this.#key, leaseId: lease.leaseId, token: lease.token };
  }

  /** Asks again while the store does not answer: a repeated call changes nothing. */
  #asked<Outcome extends { readonly status: string }>(
    ask: (options: CallOptions) => Promise<Outcome | Failed>,
  ): Promise<Outcome | Failed> {
    const send = (leftMs: number) => ask({ timeoutMs: Math.min(leftMs, RECORD_TIMEOUT_MS) });
    return new Retrying(this.#env).one(send, { timeoutMs: RECORD_BUDGET_MS });
  }

  #read(): Promise<OnceView | null> {
    const { namespace } = this.#leases;
    return this.#store.get({ namespace, key: this.#key });
  }

  async #answer(): Promise<OnceResult<T> | null> {
    return this.#answerOf(await this.#read());
  }

  /** @throws ONCE_FAILED */
  #answerOf(record: OnceView | null): OnceResult<T> | null {
    if (record?.state === "failed") {
      throw new OnceFailedError(this.#key, record.failures, record.error ?? "");
    }
    if (record?.state !== "done") return null;
    return { ran: false, value: record.value as T | null, at: record.at, by: record.by };
  }
}

/** What `once` runs on, for one client. */
export interface OnceClient {
  once<T>(key: string, options: OnceOptions, work: OnceWork<T>): Promise<OnceResult<T>>;
  /** Closes what it has made. */
  close(): Promise<void>;
}

/** @param isOwn whether the client of the leases is there for `once` alone, and closed with it */
export function onceOver(store: OnceStore, leases: LeaseClient, isOwn: boolean): OnceClient {
  const { env } = leases;
  const collectors = [startCollector(store, env, "ended records of once")];
  if (isOwn) collectors.push(startCollector(store.leases, env));
  return {
    once: (key, options, work) => once(leases, store, key, options, work),
    async close() {
      await Promise.all(collectors.map((collector) => collector.stop()));
      if (isOwn) await leases.close();
    },
  };
}

/** @throws as `Leasehold.once` */
async function once<T>(
  leases: LeaseClient,
  store: OnceStore,
  key: string,
  options: OnceOptions,
  work: OnceWork<T>,
): Promise<OnceResult<T>> {
  checkKnown(options, OPTIONS);
  checkNewName("key", key);
  if (byteLength(key) > KEY_BYTES) {
    throw new InvalidOptionError("key", `must be at most ${KEY_BYTES} bytes`);
  }
  checkFunction("work", work);
  const { keepMs, maxAttempts, retryDelayMs, waitMs } = options;
  if (keepMs !== undefined) checkNumber("keepMs", keepMs, 1, Number.MAX_SAFE_INTEGER);
  if (maxAttempts !== undefined) checkInteger("maxAttempts", maxAttempts, 1, 2 ** 31 - 1);
  if (retryDelayMs !== undefined) checkNumber("retryDelayMs", retryDelayMs, 0, 2 ** 31 - 1);
  if (waitMs !== undefined) checkNumber("waitMs", waitMs, 0, Number.POSITIVE_INFINITY);
  options.signal?.throwIfAborted();
  return new Once(leases, store, key, options, work).result();
}
