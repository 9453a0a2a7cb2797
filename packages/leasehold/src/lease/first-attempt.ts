/**
 * The first attempt of an acquire, without a position in the wait queue. It is nearly always the only one: the resource
 * is free, one call grants it. It is one object that waits for its batch, can be aborted, and becomes the lease. All
 * that an acquire needs otherwise is made when the answer is another one (acquire.ts).
 *
 * It is a second path beside attempt() of acquire.ts. Without it, in 24 alternating pairs of runs on two cores, an acquire
 * and a release had 0.89 of the speed for a lone caller on memory [0.88, 0.90], 0.77 for 256 callers [0.75, 0.78], and 0.91 for
 * 256 callers on PostgreSQL 15 [0.87, 0.94].
 *
 *   send ──▶ settle: acquired, with trust left ──▶ HeldLease
 *    │         └── anything else ──▶ `next` goes on from this answer
 *    └──▶ abort: rejects at once; a release follows once the call has returned
 */
import { type LeaseId, newLeaseId, type TraceContext } from "../env/index.js";
import type { Call } from "./aborting.js";
import type { Submission } from "./batching.js";
import { giveUp, hold, type LeaseContext } from "./context.js";
import type { HeldLease } from "./held-lease.js";
import type { ResolvedOptions } from "./options.js";
import type { AcquireOutcome, AcquireRequest } from "./port.js";
import { type Instant, instant, trustFrom, trustLeftMs } from "./trust.js";

/** One attempt takes at most this long, and at most half of the TTL. */
export const ATTEMPT_BUDGET_MS = 5_000;

/** @typeParam T what `next` may answer with instead of the lease */
export abstract class FirstAttempt<T = never>
  implements Submission<AcquireRequest, AcquireOutcome>, Call
{
  before: Call | undefined;
  after: Call | undefined;
  readonly request: AcquireRequest & { readonly leaseId: LeaseId };
  readonly timeoutMs: number;
  readonly deadlineMs: number;
  readonly from: TraceContext | undefined;
  readonly sent: Instant;
  /** The answer, once it has come. */
  outcome: AcquireOutcome | undefined;
  /** Set once aborted: to call when the call has returned. */
  #returned: (() => void) | undefined;

  constructor(
    readonly context: LeaseContext,
    resource: string,
    readonly options: ResolvedOptions,
    readonly resolve: (answer: HeldLease | Promise<HeldLease | T>) => void,
    readonly reject: (reason: unknown) => void,
  ) {
    const { env, namespace, holder } = context;
    const { ttlMs, metadata } = options;
    const leaseId = newLeaseId(env.random);
    this.sent = instant(env.clock);
    this.request =
      metadata === undefined
        ? { namespace, resource, leaseId, holder, ttlMs }
        : { namespace, resource, leaseId, holder, ttlMs, metadata };
    this.timeoutMs = Math.max(1, Math.min(ttlMs / 2, ATTEMPT_BUDGET_MS));
    this.deadlineMs = this.sent.monotonicMs + this.timeoutMs;
    this.from = env.telemetry?.here();
  }

  /** Called when the caller has the lease or has aborted. */
  protected abstract ended(): void;

  /** Goes on from any other answer. */
  protected abstract next(): Promise<HeldLease | T>;

  send(): void {
    const { context, options } = this;
    context.calls.begin(this, options.signal);
    context.batched.addAcquire(this);
  }

  settle(outcome: AcquireOutcome): void {
    if (this.#returned) return this.#returned();
    const { context, options } = this;
    this.outcome = outcome;
    try {
      const lease = outcome.status === "acquired" ? this.#hold(outcome) : undefined;
      if (lease) this.ended();
      this.resolve(lease ?? this.next());
    } catch (error) {
      this.ended();
      this.reject(error);
    }
    // Last, so that the client does not close between this call and the next one.
    context.calls.end(this, options.signal);
  }

  abort(reason: unknown): void {
    if (this.#returned || this.outcome) return;
    const { context, options, request } = this;
    const { namespace, resource, leaseId } = request;
    const returned = new Promise<void>((resolve) => {
      this.#returned = resolve;
    });
    giveUp(context, { namespace, resource, leaseId }, returned);
    this.ended();
    this.reject(reason);
    context.calls.end(this, options.signal);
  }

  /** Undefined: the answer took longer than the lease. */
  #hold(outcome: AcquireOutcome & { readonly status: "acquired" }): HeldLease | undefined {
    const { context, options, sent } = this;
    const { remainingMs } = outcome;
    if (!(trustLeftMs(trustFrom(sent, remainingMs, options), context.env.clock) > 0)) return;
    const { resource, holder, leaseId } = this.request;
    const token = context.capabilities.tokens === false ? null : outcome.token;
    return hold(context, options, { resource, holder, leaseId, sent, token, remainingMs });
  }
}
