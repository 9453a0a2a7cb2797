/**
 * The specification of the wait queue: the order in which waiters are served, as pure functions.
 *
 *   acquire, refused ──▶ ticket ──▶ refused again: the ticket stays where it is, for longer
 *                          │
 *                          ├──▶ granted: the ticket is gone
 *                          ├──▶ released (the waiter gave up): gone
 *                          └──▶ not refreshed in time (the waiter died): gone
 *
 * A ticket is a queue position: the lease id of a refused request whose caller waits. The step that
 * refuses the request stores it. A freed resource is reserved for the first ticket for RESERVED_MS, then
 * also for the second, and so on, so a dead waiter delays the others but does not block them. A request
 * without a ticket comes after all tickets.
 *
 *   freed      +500 ms       +1,000 ms
 *     │ 1st only  │ 1st or 2nd   │ 1st to 3rd ...
 *
 * Tickets decide the order only. Exclusion rests on the record alone.
 *
 * A paused resource is not granted until an operator resumes it; its waiters keep their positions. The
 * current holder keeps its lease, and a repeated request gets its own grant.
 */
import type { AcquireOutcome, AcquireRequest } from "./port.js";
import { acquire, type Decision, excludes, type LeaseRecord } from "./rules.js";

/** A queue position. A store keeps the tickets of a key in the order of their arrival. */
export interface Ticket {
  readonly leaseId: string;
  readonly holder: string;
  readonly expiresAtMs: number;
}

/**
 * How long a freed resource is reserved for each waiter. A live waiter that was woken attempts within a
 * few round trips; each dead one delays the others by this time.
 */
export const RESERVED_MS = 500;
/** After this many waiters that do not attempt, any request may have a free resource. */
export const MOST_AWAITED = 10;
/** A ticket expires after this time unless its waiter attempts again. */
export const LONGEST_TICKET_MS = 60_000;
/** The holder that is reported for a paused resource. */
export const PAUSED_HOLDER = "paused";

/** The tickets that have not expired, in their order. */
export function liveTickets(tickets: readonly Ticket[], nowMs: number): readonly Ticket[] {
  return tickets.filter(({ expiresAtMs }) => nowMs < expiresAtMs);
}

/** How many tickets are ahead of this lease id: all of them if it has none. */
function ticketsAhead(tickets: readonly Ticket[], leaseId: string): number {
  const at = tickets.findIndex((ticket) => ticket.leaseId === leaseId);
  return at < 0 ? tickets.length : at;
}

/** How long a freed resource is reserved for others, from a request with `ahead` tickets before it. */
export function reservedForMs(ahead: number): number {
  return Math.min(ahead, MOST_AWAITED) * RESERVED_MS;
}

/**
 * How long a free resource is still reserved for others; 0 if the request may have it. A clock that was
 * set back reserves nothing, just as a released record excludes no request.
 */
function reservedMs(record: LeaseRecord | null, ahead: number, nowMs: number): number {
  if (!record || excludes(record, nowMs) || nowMs < record.expiresAtMs) return 0;
  return Math.max(0, record.expiresAtMs + reservedForMs(ahead) - nowMs);
}

/** Adds the ticket of a refused request: in its old position, or at the end. */
function withTicket(
  tickets: readonly Ticket[],
  { leaseId, holder, queueMs = 0 }: { leaseId: string; holder: string; queueMs?: number },
  nowMs: number,
): readonly Ticket[] {
  if (queueMs <= 0) return tickets;
  const expiresAtMs = nowMs + Math.min(queueMs, LONGEST_TICKET_MS);
  const ticket: Ticket = { leaseId, holder, expiresAtMs };
  const at = tickets.findIndex((one) => one.leaseId === leaseId);
  if (at < 0) return [...tickets, ticket];
  // Never shorter than promised before.
  const longer = Math.max(expiresAtMs, tickets[at]?.expiresAtMs ?? 0);
  return tickets.with(at, { ...ticket, expiresAtMs: longer });
}

/** Removes the ticket of a granted request, and those ahead of it, which were passed over. */
function withoutServed(tickets: readonly Ticket[], leaseId: string): readonly Ticket[] {
  return tickets.slice(tickets.findIndex((ticket) => ticket.leaseId === leaseId) + 1);
}

/** `rules.acquire` where others may wait: what becomes of the record, of the tickets, and the answer. */
export function acquireInTurn(
  record: LeaseRecord | null,
  tickets: readonly Ticket[],
  request: AcquireRequest,
  nowMs: number,
  token: (last: number) => number,
  paused = false,
): Decision<AcquireOutcome> & { readonly tickets: readonly Ticket[] } {
  const live = liveTickets(tickets, nowMs);
  const ahead = ticketsAhead(live, request.leaseId);
  const isRepeated = record?.leaseId === request.leaseId;
  if (paused && !isRepeated) {
    return {
      record,
      tickets: withTicket(live, request, nowMs),
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
      tickets: withTicket(live, request, nowMs),
      outcome: {
        status: "held",
        holder: live[0]?.holder ?? "",
        grantId: null,
        remainingMs: keptMs,
        ahead,
      },
    };
  }
  const decision = acquire(record, request, nowMs, token);
  const { outcome } = decision;
  if (outcome.status !== "held") {
    return { ...decision, tickets: withoutServed(live, request.leaseId) };
  }
  if (!request.queueMs) return { ...decision, tickets: live };
  // A waiter learns when to attempt: after the current grant and the reservations of the waiters ahead.
  const remainingMs = (outcome.remainingMs ?? 0) + reservedForMs(ahead);
  return {
    record: decision.record,
    tickets: withTicket(live, request, nowMs),
    outcome: { ...outcome, remainingMs, ahead },
  };
}
