/** Decides an acquire from the state read of a resource, and adds a waiter if it is refused. */

import { type AcquireOutcome, type AcquireRequest, reservedForMs } from "../../core/index.js";
import { grantIdOf } from "../../env/index.js";
import type { Operation } from "./connection-api.js";
import { type Excluding, leftOf, put, type Step, type Surroundings } from "./decide.js";
import { identityOf, type Place } from "./keys.js";
import { isOver } from "./own-grants.js";
import { type Entry, excludesOthers, type GrantRecord, type Owner, viewOf } from "./records.js";
import { addWaiter, positionOf, served, withoutWaiters } from "./wait-queue.js";

/** In characters of at most three bytes: a holder's name has at most 256 bytes. */
const LONGEST_VALUE = 85;

type Held = Extract<AcquireOutcome, { readonly status: "held" }>;

export function acquire(
  entry: Entry,
  request: AcquireRequest,
  world: Surroundings,
  place: Place,
): Step<AcquireOutcome> {
  const { record, owner } = entry;
  if (record?.identity === identityOf(request.leaseId)) {
    if (record.ended || !excludesOthers(entry)) return { outcome: { status: "ended" } };
    if (entry.owner.session === world.session) return repeated(entry, request, world, place);
  }
  if (owner) return refused(entry, request, world, place, heldBy(entry, owner, world, place));
  const { ahead, own } = positionOf(entry, request.leaseId);
  const reservedMs = reservedForMs(ahead);
  const keptMs = reservedMs > 0 ? reservedMs - world.freeForMs(place, entry) : 0;
  if (keptMs > 0) {
    const holder = entry.waiters[0]?.holder ?? "";
    const remainingMs = Math.ceil(keptMs);
    const reserved: Held = { status: "held", holder, grantId: null, remainingMs, ahead };
    return refused(entry, request, world, place, reserved);
  }
  const { leaseId, holder, ttlMs, metadata = null } = request;
  const granted: GrantRecord = {
    identity: identityOf(leaseId),
    grantId: grantIdOf(leaseId),
    holder,
    token: 0,
    ttlMs,
    grantedAt: world.wallText(),
    renewedAt: null,
    ended: null,
    endedAt: null,
    metadata,
  };
  const { session } = world;
  const gone = own ? served(entry, own) : [];
  const replaced = record && { replaced: viewOf(request, { ...entry, record }, null) };
  return {
    change: {
      operations: [
        unowned(place, entry),
        // The record tells whether this session holds the key already.
        { verb: "lock", key: place.lock, value: holder, session, isLock: true },
        put(place, entry, granted),
        ...withoutWaiters(place, gone),
      ],
      entryAt: (index) => ({
        record: { ...granted, token: index },
        recordIndex: index,
        owner: { session, index, value: holder },
        leftIndex: 0,
        waiters: entry.waiters.filter((one) => !gone.includes(one)),
      }),
      inDoubt: () => world.doubted(place, request, world.monotonicMs() + ttlMs),
    },
    outcomeAt: (token) => {
      world.granted(place, request, world.monotonicMs() + ttlMs);
      return { ...acquired(request, token, ttlMs, world, place), ...replaced };
    },
  };
}

/** The outcome of a repeated request whose grant this client holds, as far as it was read. */
function repeated(
  entry: Excluding,
  request: AcquireRequest,
  world: Surroundings,
  place: Place,
): Step<AcquireOutcome> {
  const { record } = entry;
  const outcome = (): AcquireOutcome =>
    // Its time is over, and this client is about to end it.
    isOwnOver(record.identity, world, place)
      ? { status: "ended" }
      : acquired(request, record.token, record.ttlMs, world, place);
  if (world.own(place, record.identity)) return { outcome: outcome() };
  // An earlier request is not answered yet, or the grant was ended after it was read: only a look from now on tells.
  return {
    change: {
      operations: [{ verb: "check-index", key: place.lock, index: record.token }],
      entryAt: () => entry,
    },
    outcomeAt: outcome,
  };
}

function acquired(
  request: AcquireRequest,
  token: number,
  ttlMs: number,
  world: Surroundings,
  place: Place,
): AcquireOutcome {
  const own = world.own(place, identityOf(request.leaseId));
  const isKnown = own !== undefined && own.lateUntilMs === null;
  // The answer of an earlier request was lost. This client ends the grant, so it may promise all of it.
  if (!isKnown) world.granted(place, request, world.monotonicMs() + ttlMs);
  const promisedMs = Math.min(ttlMs, isKnown ? own.untilMs - world.sentMs : ttlMs);
  const remainingMs = Math.floor(Math.min(promisedMs, world.sessionMs()));
  return {
    status: "acquired",
    token,
    ttlMs,
    remainingMs: Math.max(0, remainingMs),
    expiresAt: null,
  };
}

/** Adds a waiter to the queue, and returns the number of waiters before it. */
function refused(
  entry: Entry,
  request: AcquireRequest,
  world: Surroundings,
  place: Place,
  outcome: Held,
): Step<AcquireOutcome> {
  const { queueMs = 0 } = request;
  if (queueMs <= 0) return { outcome };
  world.waits(place, request, queueMs);
  const { ahead, own } = positionOf(entry, request.leaseId);
  if (own?.session !== world.session) {
    return {
      change: { operations: addWaiter(place, request, world.session), entryAt: null },
      outcomeAt: null,
    };
  }
  // The remaining time of a reserved resource already includes the reservations.
  const reservedMs = entry.owner ? reservedForMs(ahead) : 0;
  const remainingMs = outcome.remainingMs === null ? null : outcome.remainingMs + reservedMs;
  return { outcome: { ...outcome, remainingMs, ahead } };
}

function heldBy(entry: Entry, owner: Owner, world: Surroundings, place: Place): Held {
  if (excludesOthers(entry)) {
    const { holder, grantId } = entry.record;
    return { status: "held", holder, grantId, remainingMs: leftOf(entry, world, place) };
  }
  // `consul lock`, or another program.
  const { value, session } = owner;
  // Excludes control characters, which a terminal would act on.
  const named = value.length <= LONGEST_VALUE && /^[^\p{Cc}\ufffd]+$/u.test(value);
  const holder = named
    ? value
    : session === ""
      ? "a semaphore of Consul"
      : `Consul session ${session}`;
  return { status: "held", holder, grantId: null, remainingMs: null };
}

/** A semaphore of `consul lock -n` keeps its key without a session. */
function unowned({ lock: key }: Place, { leftIndex: index }: Entry): Operation {
  return index === 0 ? { verb: "check-not-exists", key } : { verb: "check-index", key, index };
}

function isOwnOver(identity: string, world: Surroundings, place: Place): boolean {
  const own = world.own(place, identity);
  // One whose answer was lost is known to be made now, and is promised anew unless its end was asked for.
  if (own?.lateUntilMs !== null && !own?.isEnding) return false;
  return isOver(own, world.sentMs);
}
