/**
 * The specification of waiting: in what order those who were refused are served, as pure functions.
 *
 *   acquire, refused ──▶ ticket ──▶ refused again: the ticket stays where it is, for longer
 *                          │
 *                          ├──▶ its turn: granted, the ticket is gone
 *                          ├──▶ released (the waiter gave up): gone
 *                          └──▶ not said anew in time (the waiter died): gone
 *
 * A ticket is a lease id that was refused while its caller meant to wait; it is left in the step that
 * refused it. What has become free belongs to the first ticket alone for RESERVED_MS, then to the
 * second as well, and so on: a dead waiter is passed over, whoever polls. Whoever has no ticket comes
 * after all tickets.
 *
 *   freed      +500 ms       +1,000 ms
 *     │ 1st only  │ 1st or 2nd   │ 1st to 3rd ...
 *
 * Tickets decide who is asked first, never who may hold: exclusion rests on the record alone.
 *
 * What an operator has paused is granted to nobody, held or free, until that is taken back: those who
 * wait for it stay in line. Whoever holds it goes on, and a repeated request gets its own grant.
 */
import type { AcquireOutcome, AcquireRequest } from "./port.js";
import { acquire, type Decision, excludes, type LeaseRecord } from "./rules.js";

/** Left by a waiter. A store keeps those of a key in the order in which they came. */
export interface Ticket {
  readonly leaseId: string;
  readonly holder: string;
  readonly expiresAtMs: number;
}

/**
 * How long each of the first in line is waited for. A live one that was woken answers within a few
 * round trips; each dead one costs the others this much.
 */
export const RESERVED_MS = 500;
/** So many in line who do not answer are waited for; then anybody may take what is free. */
export const MOST_AWAITED = 10;
/** A ticket is forgotten after this long unless its waiter asks again. */
export const LONGEST_TICKET_MS = 60_000;
/** Who is said to hold what is paused. */
export const PAUSED_HOLDER = "paused";

/** Those that still count, in their order. */
export function liveTickets(tickets: readonly Ticket[], nowMs: number): readonly Ticket[] {
  return tickets.filter(({ expiresAtMs }) => nowMs < expiresAtMs);
}

/** How many come before this lease id: all of them if it has no ticket. */
function ticketsAhead(tickets: readonly Ticket[], leaseId: string): number {
  const at = tickets.findIndex((ticket) => ticket.leaseId === leaseId);
  return at < 0 ? tickets.length : at;
}

/** How long after its becoming free a resource is kept from whoever has `ahead` tickets before it. */
export function reservedForMs(ahead: number): number {
  return Math.min(ahead, MOST_AWAITED) * RESERVED_MS;
}

/**
 * How long a free resource is still kept for others; 0 if the request may have it. A clock that was
 * set back reserves nothing, as it excludes nobody from what was released.
 */
function reservedMs(record: LeaseRecord | null, ahead: number, nowMs: number): number {
  if (!record || excludes(record, nowMs) || nowMs < record.expiresAtMs) return 0;
  return Math.max(0, record.expiresAtMs + reservedForMs(ahead) - nowMs);
}

/** With the ticket of a request that was refused: at its old place, or at the end. */
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

/** Without that of a request that was granted, and without those before it: they were passed over. */
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
  // A waiter hears when its turn comes: after the grant in the way, and after those before it.
  const remainingMs = (outcome.remainingMs ?? 0) + reservedForMs(ahead);
  return {
    record: decision.record,
    tickets: withTicket(live, request, nowMs),
    outcome: { ...outcome, remainingMs, ahead },
  };
}
