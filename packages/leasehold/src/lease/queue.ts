/**
 * The specification of the wait queue: the order in which waiters are served, as pure functions.
 *
 *   acquire, refused ──▶ waiter ──▶ refused again: the waiter stays where it is, for longer
 *                          │
 *                          ├──▶ granted: the waiter is gone
 *                          ├──▶ released (the waiter gave up): gone
 *                          └──▶ not refreshed in time (the waiter died): gone
 *
 * A waiter is a queue position: the lease id of a refused request whose caller waits. The step that
 * refuses the request stores it. A freed resource is reserved for the first waiter for RESERVED_MS, then
 * also for the second, and so on, so a dead waiter delays the others but does not block them. A request
 * without a waiter comes after all waiters.
 *
 *   freed      +500 ms       +1,000 ms
 *     │ 1st only  │ 1st or 2nd   │ 1st to 3rd ...
 *
 * Waiters decide the order only. Exclusion rests on the record alone.
 *
 * A paused resource is not granted until an operator resumes it; its waiters keep their positions. The
 * current holder keeps its lease, and a repeated request gets its own grant.
 */
import { PAUSED_HOLDER } from "./paused-holder.js";
import type { AcquireOutcome, AcquireRequest } from "./port.js";
import { acquire, type Decision, type LeaseRecord } from "./rules.js";

/** A queue position. A store keeps the waiters of a key in the order of their arrival. */
export interface QueuedWaiter {
  readonly leaseId: string;
  readonly holder: string;
  readonly expiresAtMs: number;
}

/**
 * How long a freed resource is reserved for each waiter. A live waiter that was woken attempts within a
 * few round trips; each dead one delays the others by this time.
 * @example
 * ```ts
 * import { RESERVED_MS, reservedForMs } from "leasehold/port";
 *
 * console.log(reservedForMs(2) === 2 * RESERVED_MS);
 * ```
 */
export const RESERVED_MS = 500;
/**
 * After this many waiters that do not attempt, any request may have a free resource.
 * @example
 * ```ts
 * import { MOST_AWAITED, reservedForMs } from "leasehold/port";
 *
 * console.log(reservedForMs(MOST_AWAITED) === reservedForMs(1_000));
 * ```
 */
export const MOST_AWAITED = 10;
/**
 * A waiter expires after this time unless its caller attempts again.
 * @example
 * ```ts
 * import { LONGEST_WAITER_MS } from "leasehold/port";
 *
 * const queueMs = 120_000;
 * console.log("waits until", Date.now() + Math.min(queueMs, LONGEST_WAITER_MS));
 * ```
 */
export const LONGEST_WAITER_MS = 60_000;

/**
 * The waiters that have not expired, in their order.
 * @example
 * ```ts
 * import { liveWaiters } from "leasehold/port";
 *
 * const waiter = { leaseId: "a".repeat(48), holder: "web-1", expiresAtMs: 2_000 };
 * console.log(liveWaiters([waiter], 1_999).length, liveWaiters([waiter], 2_000).length);
 * ```
 */
export function liveWaiters(
  waiters: readonly QueuedWaiter[],
  nowMs: number,
): readonly QueuedWaiter[] {
  return waiters.filter(({ expiresAtMs }) => nowMs < expiresAtMs);
}

/** How many waiters are ahead of this lease id: all of them if it has none. */
function waitersAhead(waiters: readonly QueuedWaiter[], leaseId: string): number {
  const at = waiters.findIndex((waiter) => waiter.leaseId === leaseId);
  return at < 0 ? waiters.length : at;
}

/**
 * How long a freed resource is reserved for others, from a request with `ahead` waiters before it, in milliseconds.
 * @param ahead the number of waiters before it
 * @example
 * ```ts
 * import { reservedForMs } from "leasehold/port";
 *
 * console.log(reservedForMs(0), reservedForMs(1));
 * ```
 */
export function reservedForMs(ahead: number): number {
  return Math.min(ahead, MOST_AWAITED) * RESERVED_MS;
}

/**
 * How long a free resource is still reserved for others; 0 if the request may have it, or if the resource is
 * held. A clock that was set back reserves nothing, just as a released record excludes no request.
 */
function reservedMs(record: LeaseRecord | null, ahead: number, nowMs: number): number {
  if (!record || nowMs < record.expiresAtMs) return 0;
  return Math.max(0, record.expiresAtMs + reservedForMs(ahead) - nowMs);
}

/** The waiter of a refused request; null if its caller does not wait. */
export function waiterOf(
  { leaseId, holder, queueMs = 0 }: Pick<AcquireRequest, "leaseId" | "holder" | "queueMs">,
  nowMs: number,
): QueuedWaiter | null {
  if (queueMs <= 0) return null;
  return { leaseId, holder, expiresAtMs: nowMs + Math.min(queueMs, LONGEST_WAITER_MS) };
}

/** Adds the waiter of a refused request: in its old position, or at the end. */
function withWaiter(
  waiters: readonly QueuedWaiter[],
  request: AcquireRequest,
  nowMs: number,
): readonly QueuedWaiter[] {
  const waiter = waiterOf(request, nowMs);
  if (!waiter) return waiters;
  const { leaseId, expiresAtMs } = waiter;
  const at = waiters.findIndex((one) => one.leaseId === leaseId);
  if (at < 0) return [...waiters, waiter];
  // Never shorter than promised before.
  const longer = Math.max(expiresAtMs, waiters[at]?.expiresAtMs ?? 0);
  return waiters.with(at, { ...waiter, expiresAtMs: longer });
}

/** Removes the waiter of a granted request, and those ahead of it, which were passed over. */
function withoutServed(waiters: readonly QueuedWaiter[], leaseId: string): readonly QueuedWaiter[] {
  return waiters.slice(waiters.findIndex((waiter) => waiter.leaseId === leaseId) + 1);
}

/**
 * `rules.acquire` where others may wait: what becomes of the record, of the waiters, and the answer.
 * @example
 * ```ts
 * import { acquireInTurn } from "leasehold/port";
 *
 * const key = { namespace: "default", resource: "report" };
 * const request = { ...key, leaseId: "a".repeat(48), holder: "web-1", ttlMs: 30_000 };
 * const next = (last) => last + 1;
 * const { record, waiters, outcome } = acquireInTurn(null, [], request, Date.now(), next);
 * console.log(outcome.status, record?.token, waiters.length);
 * ```
 */
export function acquireInTurn(
  record: LeaseRecord | null,
  waiters: readonly QueuedWaiter[],
  request: AcquireRequest,
  nowMs: number,
  token: (last: number) => number,
  paused = false,
): Decision<AcquireOutcome> & { readonly waiters: readonly QueuedWaiter[] } {
  const live = liveWaiters(waiters, nowMs);
  const position = {
    ahead: waitersAhead(live, request.leaseId),
    holder: live[0]?.holder ?? "",
  };
  const { waiter, ...decision } = acquireAt(position, record, request, nowMs, token, paused);
  if (waiter === "waits") return { ...decision, waiters: withWaiter(live, request, nowMs) };
  return { ...decision, waiters: withoutServed(live, request.leaseId) };
}

/**
 * `acquireInTurn` for a store that knows the position of a request without its list of waiters.
 * @param position how many live waiters are ahead of the request, and the holder of the first one
 * @returns also what becomes of the waiter of the request: it is added or refreshed if the caller waits; or it is
 *   removed, with those ahead of it
 */
export function acquireAt(
  position: { readonly ahead: number; readonly holder: string },
  record: LeaseRecord | null,
  request: AcquireRequest,
  nowMs: number,
  token: (last: number) => number,
  paused: boolean,
): Decision<AcquireOutcome> & { readonly waiter: "waits" | "served" } {
  const { ahead, holder } = position;
  const isRepeated = record?.leaseId === request.leaseId;
  if (paused && !isRepeated) {
    return {
      record,
      waiter: "waits",
      outcome: {
        status: "held",
        holder: PAUSED_HOLDER,
        grantId: null,
        remainingMs: null,
        ...(request.queueMs && { ahead }),
      },
    };
  }
  const keptMs = isRepeated ? 0 : reservedMs(record, ahead, nowMs);
  if (keptMs > 0) {
    return {
      record,
      waiter: "waits",
      outcome: { status: "held", holder, grantId: null, remainingMs: keptMs, ahead },
    };
  }
  const decision = acquire(record, request, nowMs, token);
  const { outcome } = decision;
  if (outcome.status !== "held") return { record: decision.record, outcome, waiter: "served" };
  if (!request.queueMs) return { record: decision.record, outcome, waiter: "waits" };
  // A waiter learns when to attempt: after the current grant and the reservations of the waiters ahead.
  const remainingMs = (outcome.remainingMs ?? 0) + reservedForMs(ahead);
  return {
    record: decision.record,
    waiter: "waits",
    outcome: { ...outcome, remainingMs, ahead },
  };
}
