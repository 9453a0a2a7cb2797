/**
 * The rules (lease/rules.ts) over what is read of a resource: an outcome, or a change and the outcome
 * that it has if nobody was faster. What is decided with a change may rest on a guess, because the
 * change compares all that it rests on; what is decided without one must have been read.
 */
import { grantIdOf } from "../../env/index.js";
import {
  type AcquireOutcome,
  type AcquireRequest,
  queue,
  type ReleaseOutcome,
  type ReleaseRequest,
  type RenewOutcome,
  type RenewRequest,
  type RevokeOutcome,
  type RevokeRequest,
} from "../../lease/index.js";
import type { Compare } from "./api.js";
import { type Entry, type GrantRecord, type Owner, stands, viewOf } from "./entry.js";
import type { Place } from "./keys.js";
import type { EngineLease } from "./leases.js";
import {
  keysOf,
  nobodyCame,
  passedOver,
  ringing,
  seenBefore,
  ticketOf,
  type Waiter,
} from "./line.js";

/** Characters, of three bytes at most: a holder's name has 256 bytes. */
const LONGEST_PROPOSAL = 85;

export interface Change {
  /** Its token is 0 where it is that of the revision to come. Null: it stays as it is. */
  readonly record: GrantRecord | null;
  /** What becomes of the lock key. */
  readonly lock:
    | { readonly put: string; readonly lease: string; readonly value: string }
    | { readonly deleted: string }
    | "kept";
  /** What it rests on, beside the record and the lock key: who waits. */
  readonly given?: readonly Compare[];
  /** Keys of those who wait. */
  readonly deleted?: readonly string[];
}
export interface Changing<Outcome> {
  readonly change: Change;
  /** Once it has been made, in the revision that it has made. */
  readonly outcomeAt: (revision: number) => Outcome;
}
/** Somebody waits, and is refused. */
export interface Refusing<Outcome> {
  /** To be left before it is said, and what is read then decides; null if there is one that lasts. */
  readonly ticket: {
    readonly ttlMs: number;
    readonly holder: string;
    readonly isAgain: boolean;
  } | null;
  readonly refusal: () => Promise<Outcome>;
}
export type Step<Outcome> = { readonly outcome: Outcome } | Changing<Outcome> | Refusing<Outcome>;

/** What deciding needs of the world. */
export interface Surroundings {
  readonly wallMs: () => number;
  readonly monotonicMs: () => number;
  /** An engine lease for a new term of so long. */
  readonly take: (ttlMs: number) => Promise<EngineLease>;
  /** What is left of an engine lease, at least. */
  readonly remainingMs: (lease: string) => Promise<number>;
  /** The same, if it costs nothing to say. */
  readonly knownMs: (lease: string) => number | null;
  /** For how long we have seen that nobody holds it. */
  readonly freeForMs: (place: Place, entry: Entry) => number;
  readonly countBefore: (place: Place, ticket: Waiter) => Promise<number>;
}

export async function acquire(
  entry: Entry,
  request: AcquireRequest,
  world: Surroundings,
  place: Place,
): Promise<Step<AcquireOutcome>> {
  const { record, owner, line } = entry;
  const grantId = grantIdOf(request.leaseId);
  if (record?.grantId === grantId) {
    if (record.ended || !stands(entry)) return { outcome: { status: "ended" } };
    const { token, ttlMs } = record;
    const remainingMs = Math.min(ttlMs, await world.remainingMs(entry.owner.lease));
    return { outcome: { status: "acquired", token, ttlMs, remainingMs, expiresAt: null } };
  }
  if (owner) return refused(entry, request, world, place, () => heldBy(entry, owner, world));
  const ahead = seenBefore(line, grantId);
  const reservedMs = queue.reservedForMs(ahead);
  const keptMs = reservedMs > 0 ? reservedMs - world.freeForMs(place, entry) : 0;
  if (keptMs > 0) return refused(entry, request, world, place, () => keptFor(entry, ahead, keptMs));
  const own = ticketOf(line, grantId);
  const lease = await world.take(request.ttlMs);
  const { ttlMs } = lease;
  const granted: GrantRecord = {
    ...{ grantId, holder: request.holder, token: 0, ttlMs },
    grantedAt: textOf(world.wallMs()),
    renewedAt: null,
    expiresAt: textOf(world.wallMs() + ttlMs),
    ...{ ended: null, metadata: request.metadata ?? null },
  };
  const put = place.locks + BigInt(lease.id).toString(16);
  const replaced = record && { replaced: viewOf(request, { ...entry, record }, 0) };
  return {
    change: {
      ...{ record: granted, lock: { put, lease: lease.id, value: request.holder } },
      given: own ? [] : [nobodyCame(place, line)],
      deleted: own ? [...keysOf(place, own), ...passedOver(place, line, own)] : [],
    },
    outcomeAt: (token) => ({
      ...{ status: "acquired", token, ttlMs, remainingMs: leftOf(lease, world) },
      expiresAt: null,
      ...replaced,
    }),
  };
}

export async function renew(
  entry: Entry,
  request: RenewRequest,
  world: Surroundings,
): Promise<Step<RenewOutcome>> {
  const { record } = entry;
  const lost = (reason: "expired" | "revoked" | "taken" | "gone"): Step<RenewOutcome> => ({
    outcome: { status: "lost", reason },
  });
  if (!record) return lost("gone");
  if (record.grantId !== grantIdOf(request.leaseId)) return lost("taken");
  if (record.ended) return lost(record.ended === "revoked" ? "revoked" : "gone");
  if (!stands(entry)) return lost("expired");
  const { owner } = entry;
  const { token } = record;
  const lease = await world.take(request.ttlMs);
  const renewedAt = textOf(world.wallMs());
  if (lease.ttlMs < record.ttlMs) {
    const leftMs = await world.remainingMs(owner.lease);
    // Never earlier than promised. What is left is known to the second.
    if (lease.endsMs - world.monotonicMs() < leftMs + 1_000) {
      const { ttlMs } = record;
      const remainingMs = Math.min(ttlMs, leftMs);
      return {
        change: { record: { ...record, renewedAt }, lock: "kept" },
        outcomeAt: () => ({ status: "renewed", token, ttlMs, remainingMs, expiresAt: null }),
      };
    }
  }
  const { ttlMs } = lease;
  const expiresAt = textOf(world.wallMs() + ttlMs);
  return {
    change: {
      record: { ...record, ttlMs, renewedAt, expiresAt },
      lock: { put: owner.key, lease: lease.id, value: owner.value },
    },
    outcomeAt: () => ({
      ...{ status: "renewed", token, ttlMs, remainingMs: leftOf(lease, world) },
      expiresAt: null,
    }),
  };
}

export async function release(
  entry: Entry,
  request: ReleaseRequest,
  world: Surroundings,
  place: Place,
): Promise<Step<ReleaseOutcome>> {
  const { record } = entry;
  const grantId = grantIdOf(request.leaseId);
  if (record?.grantId !== grantId) return withdrawn(entry, grantId, place);
  if (record.ended === "released") return { outcome: { status: "released" } };
  if (!stands(entry)) return { outcome: { status: "notHeld" } };
  // A holder may also hand back early what an operator has revoked: it has stopped.
  return {
    change: ending(entry, "released", world, place),
    outcomeAt: () => ({ status: "released" }),
  };
}

export async function revoke(
  entry: Entry,
  request: RevokeRequest,
  world: Surroundings,
  place: Place,
): Promise<Step<RevokeOutcome>> {
  if (!stands(entry)) return { outcome: { status: "notHeld" } };
  const { record, owner } = entry;
  const { token, ttlMs } = record;
  if (request.expectedToken !== undefined && request.expectedToken !== token) {
    return { outcome: { status: "otherToken" } };
  }
  if (request.free === "now") {
    return {
      change: ending(entry, "revoked", world, place),
      outcomeAt: () => ({ status: "revoked", token, freeInMs: 0 }),
    };
  }
  const leftMs = Math.ceil(Math.min(ttlMs, await world.remainingMs(owner.lease)));
  const outcome: RevokeOutcome = { status: "revoked", token, freeInMs: leftMs };
  if (record.ended) return { outcome };
  // Nobody moves its key to another engine lease any more.
  return {
    change: { record: { ...record, ended: "revoked" }, lock: "kept" },
    outcomeAt: () => outcome,
  };
}

type Held = Extract<AcquireOutcome, { readonly status: "held" }>;

/** Whoever waits leaves a ticket, and is told who is before it. */
async function refused(
  entry: Entry,
  request: AcquireRequest,
  world: Surroundings,
  place: Place,
  outcome: () => Held,
): Promise<Step<AcquireOutcome>> {
  const { leaseId, holder, queueMs = 0 } = request;
  if (queueMs <= 0) return { outcome: outcome() };
  const grantId = grantIdOf(leaseId);
  const ttlMs = Math.min(queueMs, queue.LONGEST_TICKET_MS);
  const own = ticketOf(entry.line, grantId);
  const lasts = own && (await world.remainingMs(own.lease)) >= ttlMs;
  return {
    ticket: lasts ? null : { ttlMs, holder, isAgain: own !== null },
    refusal: async () => {
      const held = outcome();
      const ahead = await countAhead(entry, grantId, world, place);
      // What is kept for others has their turns in it already.
      const turnsMs = entry.owner ? queue.reservedForMs(ahead) : 0;
      const remainingMs = held.remainingMs === null ? null : held.remainingMs + turnsMs;
      return { ...held, remainingMs, ahead };
    },
  };
}

async function countAhead(
  { line }: Entry,
  grantId: string,
  world: Surroundings,
  place: Place,
): Promise<number> {
  const seen = seenBefore(line, grantId);
  const own = ticketOf(line, grantId);
  if (!own || seen < line.first.length) return seen;
  // It came last, with what was read.
  if (own.createRevision === line.revision) return line.count - 1;
  return world.countBefore(place, own);
}

/** Nobody holds it, but others wait. */
function keptFor({ line }: Entry, ahead: number, keptMs: number): Held {
  const holder = line.first[0]?.holder ?? "";
  const remainingMs = Math.ceil(keptMs);
  return { status: "held", holder, grantId: null, remainingMs, ahead };
}

/** A waiter gives its place up. If the resource was kept for it, the next one is told. */
function withdrawn({ line, owner }: Entry, grantId: string, place: Place): Step<ReleaseOutcome> {
  const outcome: ReleaseOutcome = { status: "notHeld" };
  const own = ticketOf(line, grantId);
  if (!own) return { outcome };
  const [first, ...others] = line.first;
  const isKept = owner === null && first?.grantId === grantId && others.length > 0;
  const { given = [], deleted = [] } = isKept ? ringing(place, { ...line, first: others }) : {};
  return {
    change: {
      ...{ record: null, lock: "kept", given },
      deleted: [...keysOf(place, own), ...deleted],
    },
    outcomeAt: () => outcome,
  };
}

function heldBy(entry: Entry, owner: Owner, { knownMs }: Surroundings): Held {
  if (stands(entry)) {
    const { holder, grantId, ttlMs } = entry.record;
    const leftMs = knownMs(owner.lease);
    const remainingMs = leftMs === null ? null : Math.max(1, Math.ceil(Math.min(ttlMs, leftMs)));
    return { status: "held", holder, grantId, remainingMs };
  }
  // Somebody's of etcd's own ways: elections have the candidate's proposal as their value.
  const lease = owner.key.slice(owner.key.lastIndexOf("/") + 1);
  const named = owner.value !== "" && owner.value.length <= LONGEST_PROPOSAL;
  const holder = named ? owner.value : `etcd lease ${lease}`;
  return { status: "held", holder, grantId: null, remainingMs: null };
}

function ending(
  { record, owner, line }: Entry & { record: GrantRecord; owner: Owner },
  ended: "released" | "revoked",
  world: Surroundings,
  place: Place,
): Change {
  return {
    ...ringing(place, line),
    record: { ...record, ended, expiresAt: textOf(world.wallMs()) },
    lock: { deleted: owner.key },
  };
}

function leftOf({ ttlMs, endsMs }: EngineLease, { monotonicMs }: Surroundings): number {
  return Math.max(0, Math.min(ttlMs, Math.floor(endsMs - monotonicMs())));
}

function textOf(wallMs: number): string {
  return new Date(wallMs).toISOString();
}
