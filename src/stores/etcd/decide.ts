/**
 * The rules (lease/rules.ts) over what is read of a resource: an outcome, or a change and the outcome
 * that it has if nobody was faster. What is decided with a change may rest on a guess, because the
 * change compares all that it rests on; what is decided without one must have been read.
 */
import { grantIdOf } from "../../env/index.js";
import type {
  AcquireOutcome,
  AcquireRequest,
  ReleaseOutcome,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
  RevokeOutcome,
  RevokeRequest,
} from "../../lease/index.js";
import { type Entry, type GrantRecord, type Owner, stands, viewOf } from "./entry.js";
import type { Place } from "./keys.js";
import type { EngineLease } from "./leases.js";

/** Characters, of three bytes at most: a holder's name has 256 bytes. */
const LONGEST_PROPOSAL = 85;

export interface Change {
  /** Its token is 0 where it is that of the revision to come. */
  readonly record: GrantRecord;
  /** What becomes of the lock key. */
  readonly lock:
    | { readonly put: string; readonly lease: string; readonly value: string }
    | { readonly deleted: string }
    | "kept";
}
export interface Changing<Outcome> {
  readonly change: Change;
  /** Once it has been made, in the revision that it has made. */
  readonly outcomeAt: (revision: number) => Outcome;
}
export type Step<Outcome> = { readonly outcome: Outcome } | Changing<Outcome>;

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
}

export async function acquire(
  entry: Entry,
  request: AcquireRequest,
  world: Surroundings,
  place: Place,
): Promise<Step<AcquireOutcome>> {
  const { record, owner } = entry;
  const grantId = grantIdOf(request.leaseId);
  if (record?.grantId === grantId) {
    if (record.ended || !stands(entry)) return { outcome: { status: "ended" } };
    const { token, ttlMs } = record;
    const remainingMs = Math.min(ttlMs, await world.remainingMs(entry.owner.lease));
    return { outcome: { status: "acquired", token, ttlMs, remainingMs, expiresAt: null } };
  }
  if (owner) return { outcome: heldBy(entry, owner, world) };
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
    change: { record: granted, lock: { put, lease: lease.id, value: request.holder } },
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
): Promise<Step<ReleaseOutcome>> {
  const { record } = entry;
  if (record?.grantId !== grantIdOf(request.leaseId)) return { outcome: { status: "notHeld" } };
  if (record.ended === "released") return { outcome: { status: "released" } };
  if (!stands(entry)) return { outcome: { status: "notHeld" } };
  // A holder may also hand back early what an operator has revoked: it has stopped.
  return {
    change: ending(entry, "released", world),
    outcomeAt: () => ({ status: "released" }),
  };
}

export async function revoke(
  entry: Entry,
  request: RevokeRequest,
  world: Surroundings,
): Promise<Step<RevokeOutcome>> {
  if (!stands(entry)) return { outcome: { status: "notHeld" } };
  const { record, owner } = entry;
  const { token, ttlMs } = record;
  if (request.expectedToken !== undefined && request.expectedToken !== token) {
    return { outcome: { status: "otherToken" } };
  }
  if (request.free === "now") {
    return {
      change: ending(entry, "revoked", world),
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

function heldBy(entry: Entry, owner: Owner, { knownMs }: Surroundings): AcquireOutcome {
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
  { record, owner }: { record: GrantRecord; owner: Owner },
  ended: "released" | "revoked",
  world: Surroundings,
): Change {
  return {
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
