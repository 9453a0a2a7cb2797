/**
 * Those who wait in our way (lease/queue.ts). A waiter has two keys, both under an engine lease that
 * lasts for as long as its place is kept, so that a dead one's vanish:
 *
 *   its ticket   the holder's name; the create revisions of tickets are the order of the line
 *   its bell     empty; deleting it wakes the waiter that it is named after
 *
 *   refused ──▶ both are put, again for every look that wants the place for longer
 *   freed   ──▶ whoever frees the resource deletes the bell of the first ticket
 *   granted ──▶ both are deleted, and the tickets before them: they were passed over
 *
 * Tickets are only added at the end: who was read to be first is so until its ticket is gone.
 */
import { queue } from "../../lease/index.js";
import {
  type Compare,
  type KeyValue,
  type Operation,
  type RangeAnswer,
  type Response,
  revisionOf,
} from "./api.js";
import { below, fromBase64, type Place, toBase64 } from "./keys.js";

export interface Waiter {
  readonly grantId: string;
  readonly holder: string;
  readonly createRevision: number;
  /** The engine lease that its keys are under. */
  readonly lease: string;
}

export interface Line {
  /** In their order; all of them if there are no more than {@link MOST_READ}. */
  readonly first: readonly Waiter[];
  readonly count: number;
  /** Whoever asked when this was read. */
  readonly own: Waiter | null;
  /** Up to which this is known: later tickets were not seen. */
  readonly revision: number;
}

export const NOBODY: Line = { first: [], count: 0, own: null, revision: 0 };

/** Those who are waited for, and one more. */
const MOST_READ = queue.MOST_AWAITED + 1;

/** @param grantId of whoever asks, if it may have a ticket */
export function readLine({ tickets }: Place, grantId: string | null): Operation[] {
  const { start, end } = below(tickets);
  const line: Operation = {
    request_range: {
      ...{ key: toBase64(start), range_end: toBase64(end), limit: String(MOST_READ) },
      ...{ sort_target: "CREATE", sort_order: "ASCEND" },
    },
  };
  if (grantId === null) return [line];
  return [line, { request_range: { key: toBase64(tickets + grantId) } }];
}

/** @param answers of {@link readLine} */
export function lineOf(
  { tickets }: Place,
  [line, own]: readonly (Response | undefined)[],
  revision: number,
): Line {
  const waiters = (answer?: RangeAnswer) => (answer?.kvs ?? []).map((kv) => waiterOf(tickets, kv));
  return {
    first: waiters(line?.response_range),
    count: Number(line?.response_range?.count ?? 0),
    own: waiters(own?.response_range)[0] ?? null,
    revision,
  };
}

/** Tickets that were made before. */
export function countBefore({ tickets }: Place, { createRevision }: Waiter): object {
  const { start, end } = below(tickets);
  return {
    ...{ key: toBase64(start), range_end: toBase64(end), keys_only: true },
    max_create_revision: String(createRevision - 1),
  };
}

/** Makes a place in line, or keeps it for longer. */
export function putTicket(place: Place, grantId: string, holder: string, lease: string) {
  return [
    [place.tickets, holder],
    [place.bells, ""],
  ].map(
    ([folder, value = ""]): Operation => ({
      request_put: { key: toBase64(folder + grantId), value: toBase64(value), lease },
    }),
  );
}

/** The ticket of a lease id, if it was read. */
export function ticketOf({ first, own }: Line, grantId: string): Waiter | null {
  return [...first, own].find((one) => one?.grantId === grantId) ?? null;
}

/** How many come before this one, as far as they were read: all of them if it has no ticket. */
export function seenBefore(line: Line, grantId: string): number {
  const at = line.first.findIndex((one) => one.grantId === grantId);
  if (at >= 0) return at;
  return ticketOf(line, grantId) ? line.first.length : line.count;
}

/** Nobody has come since the line was read. */
export function nobodyCame({ tickets }: Place, { revision }: Line): Compare {
  const { start, end } = below(tickets);
  return {
    ...{ key: toBase64(start), range_end: toBase64(end), target: "CREATE", result: "LESS" },
    create_revision: String(revision + 1),
  };
}

/** Wakes the first one, given that it is the first one; or nobody, given that nobody waits. */
export function ringing(
  place: Place,
  line: Line,
): { readonly given: readonly Compare[]; readonly deleted: readonly string[] } {
  const [first] = line.first;
  if (!first) return { given: [nobodyCame(place, line)], deleted: [] };
  const { grantId, createRevision } = first;
  const key = toBase64(place.tickets + grantId);
  return {
    given: [{ key, target: "CREATE", result: "EQUAL", create_revision: String(createRevision) }],
    deleted: [place.bells + grantId],
  };
}

/** Both keys of a place in line. */
export function keysOf({ tickets, bells }: Place, { grantId }: Waiter): string[] {
  return [tickets + grantId, bells + grantId];
}

/** The tickets of those who are passed over when the lease id is served. */
export function passedOver({ tickets }: Place, { first }: Line, own: Waiter): string[] {
  return first
    .filter(({ createRevision }) => createRevision < own.createRevision)
    .slice(0, queue.MOST_AWAITED)
    .map(({ grantId }) => tickets + grantId);
}

/** When some tickets are gone. */
export function without({ tickets }: Place, line: Line, deleted: readonly string[]): Line {
  const first = line.first.filter(({ grantId }) => !deleted.includes(tickets + grantId));
  if (first.length === line.first.length) return line;
  // Who stood behind those that were read is not known.
  return { ...line, first, own: null, revision: 0 };
}

function waiterOf(tickets: string, kv: KeyValue): Waiter {
  return {
    grantId: fromBase64(kv.key).slice(tickets.length),
    holder: fromBase64(kv.value ?? ""),
    createRevision: revisionOf(kv.create_revision),
    lease: kv.lease ?? "0",
  };
}
