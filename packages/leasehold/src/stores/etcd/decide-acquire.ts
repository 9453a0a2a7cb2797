/** Decides an acquire from the state read of a resource, and adds a waiter if it is refused. */

import {
  type AcquireOutcome,
  type AcquireRequest,
  LONGEST_WAITER_MS,
  reservedForMs,
} from "../../core/index.js";
import { grantIdOf } from "../../env/index.js";
import { leftOf, type Step, type Surroundings } from "./decide.js";
import type { Place } from "./keys.js";
import { type Entry, excludesOthers, type GrantRecord, type Owner, viewOf } from "./records.js";
import { findWaiter, keysOf, noNewWaiter, passedOver, seenBefore } from "./wait-queue.js";

/** In characters of at most three bytes: a holder's name has at most 256 bytes. */
const LONGEST_PROPOSAL = 85;

type Held = Extract<AcquireOutcome, { readonly status: "held" }>;

export async function acquire(
  entry: Entry,
  request: AcquireRequest,
  world: Surroundings,
  place: Place,
): Promise<Step<AcquireOutcome>> {
  const { record, owner, waiters } = entry;
  const { leaseId } = request;
  if (record?.leaseId === leaseId) {
    if (record.ended || !excludesOthers(entry)) return { outcome: { status: "ended" } };
    const { token, ttlMs } = record;
    const remainingMs = Math.min(ttlMs, await world.remainingMs(entry.owner.lease));
    return { outcome: { status: "acquired", token, ttlMs, remainingMs, expiresAt: null } };
  }
  if (owner) return refused(entry, request, world, place, () => heldBy(entry, owner, world));
  const ahead = seenBefore(waiters, leaseId);
  const reservedMs = reservedForMs(ahead);
  const keptMs = reservedMs > 0 ? reservedMs - world.freeForMs(place, entry) : 0;
  if (keptMs > 0) return refused(entry, request, world, place, () => keptFor(entry, ahead, keptMs));
  const own = findWaiter(waiters, leaseId);
  const lease = await world.take(request.ttlMs);
  const { ttlMs } = lease;
  const granted: GrantRecord = {
    leaseId,
    holder: request.holder,
    token: 0,
    ttlMs,
    grantedAt: world.textOf(world.wallMs),
    renewedAt: null,
    expiresAt: world.textOf(world.wallMs + ttlMs),
    ended: null,
    metadata: request.metadata ?? null,
  };
  const put = place.locks + BigInt(lease.id).toString(16);
  const replaced = record && { replaced: viewOf(request, { ...entry, record }, 0) };
  return {
    change: {
      record: granted,
      lock: { put, lease: lease.id, value: request.holder },
      given: own ? [] : [noNewWaiter(place, waiters)],
      deleted: own ? [...keysOf(place, own), ...passedOver(place, waiters, own)] : [],
    },
    outcomeAt: (token) => ({
      status: "acquired",
      token,
      ttlMs,
      remainingMs: leftOf(lease, world),
      expiresAt: null,
      ...replaced,
    }),
  };
}

/** Adds a waiter to the queue, and returns the number of waiters before it. */
async function refused(
  entry: Entry,
  request: AcquireRequest,
  world: Surroundings,
  place: Place,
  outcome: () => Held,
): Promise<Step<AcquireOutcome>> {
  const { leaseId, holder, queueMs = 0 } = request;
  if (queueMs <= 0) return { outcome: outcome() };
  const ttlMs = Math.min(queueMs, LONGEST_WAITER_MS);
  const own = findWaiter(entry.waiters, leaseId);
  const lasts = own && (await world.remainingMs(own.lease)) >= ttlMs;
  return {
    waiter: lasts ? null : { ttlMs, holder, isAgain: own !== null },
    refusal: async () => {
      const held = outcome();
      const ahead = await countAhead(entry, leaseId, world, place);
      // A reserved resource's remaining time already includes the reservations.
      const reservedMs = entry.owner ? reservedForMs(ahead) : 0;
      const remainingMs = held.remainingMs === null ? null : held.remainingMs + reservedMs;
      return { ...held, remainingMs, ahead };
    },
  };
}

async function countAhead(
  { waiters }: Entry,
  leaseId: string,
  world: Surroundings,
  place: Place,
): Promise<number> {
  const seen = seenBefore(waiters, leaseId);
  const own = findWaiter(waiters, leaseId);
  if (!own || seen < waiters.first.length) return seen;
  // The waiter was added last, together with this read.
  if (own.createRevision === waiters.revision) return waiters.count - 1;
  return world.countBefore(place, own);
}

/** The resource is free, but reserved for earlier waiters. */
function keptFor({ waiters }: Entry, ahead: number, keptMs: number): Held {
  const holder = waiters.first[0]?.holder ?? "";
  const remainingMs = Math.ceil(keptMs);
  return { status: "held", holder, grantId: null, remainingMs, ahead };
}

function heldBy(entry: Entry, owner: Owner, { knownMs }: Surroundings): Held {
  if (excludesOthers(entry)) {
    const { holder, leaseId, ttlMs } = entry.record;
    const leftMs = knownMs(owner.lease);
    const remainingMs = leftMs === null ? null : Math.max(1, Math.ceil(Math.min(ttlMs, leftMs)));
    return { status: "held", holder, grantId: grantIdOf(leaseId), remainingMs };
  }
  // The lock of another etcd client: elections store the candidate's proposal as the value.
  const lease = owner.key.slice(owner.key.lastIndexOf("/") + 1);
  const named = owner.value !== "" && owner.value.length <= LONGEST_PROPOSAL;
  const holder = named ? owner.value : `etcd lease ${lease}`;
  return { status: "held", holder, grantId: null, remainingMs: null };
}
