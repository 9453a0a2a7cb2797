/**
 * Group commit. Concurrent callers are gathered while the statements before theirs are in flight:
 *
 *   callers   a   b     c d e       f g
 *             │   │     └─┴─┴──┐    └─┴──┐
 *   store     [ a ]───────────▶[ c d e ]─┼──▶
 *                 [ b ]─────────────────▶[ f g ]
 *
 * An idle caller waits for nothing, and a busy store sees few, large statements. A statement never takes
 * every caller: then the store would be idle while this process handles the answers, and this process while
 * the store works. So a statement takes half of the callers, where two are in flight:
 *
 *   callers of the lane / MOST_IN_FLIGHT
 *
 * of the callers that wait, are in flight, or have just been answered and are likely to return. While one half
 * is answered and asks again, the store works for the other. Thirds, which Little's law asks for with this
 * process as one more place, were measured to be slower: each statement has its own commit. Where a half is
 * few, a statement takes SMALLEST_SHARE of them, because it costs more than its requests.
 */
import {
  type Clock,
  invariant,
  type Telemetry,
  type TraceContext,
  withTimeout,
} from "../env/index.js";
import { StoreUnavailableError } from "./errors.js";
import type {
  AcquireOutcome,
  AcquireRequest,
  CallOptions,
  Failed,
  LeaseStore,
  ReleaseOutcome,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
} from "./port.js";
import { failedOutcome, isRefusedRequest } from "./store-errors.js";

/** Of a few hundred requests a statement's fixed cost is spread thin; more only adds latency. */
const LARGEST_BATCH = 1_000;
/** A statement costs most stores about as much as this many of its requests: see `Capabilities.callCost`. */
const SMALLEST_SHARE = 16;
/** One at work, one on its way. More would make them smaller, and meet each other's rows. */
const MOST_IN_FLIGHT = 2;
/** A store bounds its calls itself; this long after the bound we stop believing that it does. */
const OVERRUN_MS = 50;

/** The timeouts of one call differ by at most this factor. */
const PATIENCE_FACTOR = 4;

/** A request that waits for its batch, and what its outcome is for. */
export interface Submission<Request, Outcome> {
  readonly request: Request;
  readonly timeoutMs: number;
  /** When the caller no longer cares, by the monotonic clock. */
  readonly deadlineMs: number;
  /** What the caller is part of, where that is traced. */
  readonly from: TraceContext | undefined;
  /** Equal for requests that one caller has sent in an order, which no two batches in flight would keep. */
  readonly group?: object | undefined;
  /** Called once. Must not throw. */
  settle(outcome: Outcome | Failed): void;
}

/** One lane to a store: few calls in flight, and what arrives meanwhile is shared out among the next. */
export class Batcher<Request, Outcome> {
  #waiting: Submission<Request, Outcome>[] = [];
  /** Calls in flight, and the requests in them. */
  #calls = 0;
  #requests = 0;
  #isGathering = false;

  constructor(
    readonly send: (requests: Request[], options: CallOptions) => Promise<Outcome[]>,
    readonly clock: Clock,
    readonly telemetry?: Telemetry | undefined,
    /** More where a statement costs more, or where its callers wait for nothing. */
    readonly smallestShare: number = SMALLEST_SHARE,
  ) {}

  /**
   * One request, one outcome; never rejects. A call's timeout is the shortest of its requests, so
   * that no caller is held up by another's patience, and those of much less patience have a call of their own, so
   * that no caller fails by another's impatience.
   */
  submit(request: Request, timeoutMs: number, group?: object): Promise<Outcome | Failed> {
    return new Promise((settle) => {
      const deadlineMs = this.clock.monotonic() + timeoutMs;
      this.add({ request, timeoutMs, deadlineMs, from: this.telemetry?.here(), group, settle });
    });
  }

  /** Requests of one caller, decided in their order. */
  submitAll(requests: readonly Request[], timeoutMs: number): Promise<(Outcome | Failed)[]> {
    return Promise.all(requests.map((request) => this.submit(request, timeoutMs, requests)));
  }

  /** As `submit`, without a promise. */
  add(submission: Submission<Request, Outcome>): void {
    this.#waiting.push(submission);
    if (this.#calls >= MOST_IN_FLIGHT || this.#isGathering) return;
    this.#isGathering = true;
    // The callers of this very moment go together.
    queueMicrotask(this.#gathered);
  }

  readonly #gathered = (): void => {
    this.#isGathering = false;
    this.#sendWaiting(0);
  };

  /** @param answered how many callers are answered right now */
  #sendWaiting(answered: number): void {
    while (this.#waiting.length > 0 && this.#calls < MOST_IN_FLIGHT) {
      const batch = this.#unlessOverdue(this.#waiting.splice(0, this.#share(answered)));
      for (const some of byPatience(batch)) void this.#fly(some);
    }
  }

  #share(answered: number): number {
    const waiting = this.#waiting;
    const callers = waiting.length + this.#requests + answered;
    const share = Math.ceil(callers / MOST_IN_FLIGHT);
    let size = Math.min(LARGEST_BATCH, Math.max(this.smallestShare, share));
    // A group is at most as large as a batch, and is not split.
    for (let last = waiting[size - 1]; last?.group && last.group === waiting[size]?.group; )
      size += 1;
    return size;
  }

  async #fly(batch: Submission<Request, Outcome>[]): Promise<void> {
    this.#calls += 1;
    this.#requests += batch.length;
    const outcomes = await this.#decide(batch);
    this.#calls -= 1;
    this.#requests -= batch.length;
    // First, so that the store works while the callers go on.
    this.#sendWaiting(batch.length);
    for (let at = 0; at < batch.length; at += 1)
      batch[at]?.settle(outcomes[at] as Outcome | Failed);
  }

  /**
   * Drops what waited for longer than its caller does. Sent all the same, it could take effect after
   * the caller has given up on it, and its release has come and gone in another lane.
   */
  #unlessOverdue(batch: Submission<Request, Outcome>[]): Submission<Request, Outcome>[] {
    const nowMs = this.clock.monotonic();
    if (!batch.some(({ deadlineMs }) => deadlineMs <= nowMs)) return batch;
    return batch.filter((submission) => {
      const { deadlineMs, timeoutMs } = submission;
      if (deadlineMs > nowMs) return true;
      submission.settle(notSent(timeoutMs));
      return false;
    });
  }

  /**
   * As `#call`. What the store refuses for good may be the fault of one request only, so the refused ones are sent again
   * in halves, in their order, until each request that is refused was sent alone.
   */
  async #decide(batch: Submission<Request, Outcome>[]): Promise<(Outcome | Failed)[]> {
    const outcomes = await this.#call(batch);
    if (batch.length === 1) return outcomes;
    const refused = [...batch.keys()].filter((at) => isRefusedRequest(outcomes[at]));
    const half = Math.ceil(refused.length / 2);
    for (const some of [refused.slice(0, half), refused.slice(half)]) {
      if (some.length === 0) continue;
      const again = some.map((at) => batch[at] as Submission<Request, Outcome>);
      const decided = await this.#decideInTime(again);
      for (const [n, at] of some.entries()) outcomes[at] = decided[n] as Outcome | Failed;
    }
    return outcomes;
  }

  /** As `#decide`, unless a caller no longer cares. */
  #decideInTime(batch: Submission<Request, Outcome>[]): Promise<(Outcome | Failed)[]> {
    const nowMs = this.clock.monotonic();
    if (batch.every(({ deadlineMs }) => deadlineMs > nowMs)) return this.#decide(batch);
    return Promise.resolve(batch.map(({ timeoutMs }) => notSent(timeoutMs)));
  }

  /** Sends a batch; one outcome per request, failed ones included. Never rejects. */
  #call(batch: Submission<Request, Outcome>[]): Promise<(Outcome | Failed)[]> {
    const timeoutMs = batch.reduce((least, { timeoutMs }) => Math.min(least, timeoutMs), Infinity);
    const fail = (error: unknown): (Outcome | Failed)[] => {
      const failed = failedOutcome(error);
      return batch.map(() => failed);
    };
    const sent = this.#sendAll(batch, timeoutMs).then((outcomes) => {
      invariant(outcomes.length === batch.length, "one outcome per request");
      return outcomes;
    });
    const answer: Promise<(Outcome | Failed)[]> = sent.catch(fail);
    if (!Number.isFinite(timeoutMs)) return answer;
    // A call that never settles must not stop the lane for the renewals behind it.
    return withTimeout(this.clock, timeoutMs + OVERRUN_MS, answer, () =>
      fail(new Error(`no answer within ${Math.round(timeoutMs)} ms`)),
    );
  }

  async #sendAll(batch: Submission<Request, Outcome>[], timeoutMs: number): Promise<Outcome[]> {
    const requests = batch.map(({ request }) => request);
    const send = () => this.send(requests, Number.isFinite(timeoutMs) ? { timeoutMs } : {});
    if (!this.telemetry) return send();
    return this.telemetry.within(
      batch.flatMap(({ from }) => from ?? []),
      send,
    );
  }
}

function notSent(timeoutMs: number): Failed {
  const what = `not sent: the store was busy for longer than ${Math.round(timeoutMs)} ms`;
  const error = new StoreUnavailableError(what, { outcome: "none" });
  return { status: "failed", applied: "no", retryable: true, error };
}

/** The requests of a batch as calls; nearly always it is one. Those of a group have the same timeout, and stay together. */
function byPatience<Request, Outcome>(
  batch: Submission<Request, Outcome>[],
): Submission<Request, Outcome>[][] {
  const longestMs = batch.reduce((most, { timeoutMs }) => Math.max(most, timeoutMs), 0);
  const isPatient = ({ timeoutMs }: Submission<Request, Outcome>) =>
    timeoutMs * PATIENCE_FACTOR >= longestMs;
  if (batch.every(isPatient)) return batch.length > 0 ? [batch] : [];
  return [batch.filter(isPatient), ...byPatience(batch.filter((one) => !isPatient(one)))];
}

/**
 * A store as its callers use it: one request at a time, gathered per lane. Renewals and releases
 * have lanes of their own, so that no crowd of acquirers delays them.
 */
export interface BatchedStore {
  /** @param group of requests that one caller has sent in an order; of each operation */
  acquire(request: AcquireRequest, timeoutMs: number, group?: object): Promise<AcquireOutcome>;
  /** The same, for a caller that needs no promise of the outcome. */
  addAcquire(submission: Submission<AcquireRequest, AcquireOutcome>): void;
  renew(request: RenewRequest, timeoutMs: number, group?: object): Promise<RenewOutcome>;
  release(request: ReleaseRequest, timeoutMs: number, group?: object): Promise<ReleaseOutcome>;
}

/** @param tell what acquires shall tell of, beside their outcome */
export function batched(
  store: LeaseStore,
  clock: Clock,
  tell: Pick<CallOptions, "returnReplaced"> = {},
  telemetry?: Telemetry,
): BatchedStore {
  const { callCost } = store.capabilities;
  const acquire = new Batcher<AcquireRequest, AcquireOutcome>(
    (requests, options) => store.acquire(requests, { ...options, ...tell }),
    clock,
    telemetry,
    callCost,
  );
  const renew = new Batcher(store.renew.bind(store), clock, telemetry, callCost);
  const release = new Batcher(store.release.bind(store), clock, telemetry, callCost);
  return {
    acquire: (request, timeoutMs, group) => acquire.submit(request, timeoutMs, group),
    addAcquire: (submission) => acquire.add(submission),
    renew: (request, timeoutMs, group) => renew.submit(request, timeoutMs, group),
    release: (request, timeoutMs, group) => release.submit(request, timeoutMs, group),
  };
}
