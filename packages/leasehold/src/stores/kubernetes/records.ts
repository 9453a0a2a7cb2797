/**
 * The Lease object (coordination.k8s.io/v1), as client-go's leader election reads and writes it, and
 * what we add to it in annotations.
 *
 *   spec.holderIdentity          <holder>_<grant id>: readable, another one for each grant; "" is free
 *   spec.leaseDurationSeconds    for as long contenders watch the record stay as it is
 *   spec.acquireTime, renewTime  of the holder's wall clock: that they change counts, not what they say
 *   spec.leaseTransitions        one more with each grant but the first
 *   leasehold.dev/grant          SHA-256 of the lease id; with leasehold.dev/holder it makes up the
 *                                holderIdentity. If that is another one, another client has the lease
 *                                now, and the annotations are of a grant before
 *   leasehold.dev/token          the last token that we have granted: it stays, whoever has the lease
 *   leasehold.dev/ended          `released` or `revoked`
 *   leasehold.dev/ttl-ms, metadata, namespace, resource
 *   labels leasehold.dev/namespace, grant: to find objects by
 *
 * Other annotations, labels and fields go back as they came. records-changes.ts makes the next version.
 */

import { type Key, type LeaseRecord, type LeaseView, viewOf } from "../../core/index.js";
import { digestOf } from "../../env/index.js";
import { isPlainName, SHARED_NAMESPACE } from "./keys.js";

export interface LeaseObject {
  readonly metadata: {
    readonly name: string;
    readonly resourceVersion?: string;
    readonly creationTimestamp?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  readonly spec?: LeaseSpec;
}
export interface LeaseSpec {
  readonly holderIdentity?: string | null;
  readonly leaseDurationSeconds?: number | null;
  readonly acquireTime?: string | null;
  readonly renewTime?: string | null;
  readonly leaseTransitions?: number | null;
}

/** A version of an object, and since when we know it. */
export interface Observed {
  readonly object: LeaseObject;
  /** By our monotonic clock. It was written earlier, so its age for others counts from here. */
  readonly receivedMs: number;
  /** It was written later than this, so trust in it counts from here; null where others wrote it. */
  readonly trustFromMs: number | null;
}

/** Of our annotations and labels. */
export const PREFIX = "leasehold.dev/";
/** By which the objects of a namespace of ours are found. */
export const NAMESPACE_LABEL = `${PREFIX}namespace`;
/** The public name of the last grant of ours, until it is forgotten. */
export const GRANT_LABEL = `${PREFIX}grant`;
/** Of a holder that does not say: what leader election in client-go has by default. */
const DEFAULT_DURATION_SECONDS = 15;

function noted({ metadata }: LeaseObject, name: string): string | undefined {
  return metadata.annotations?.[PREFIX + name];
}

/** The public name of the grant that has this digest. */
export function grantIdIn(digest: string): string {
  return digest.slice(0, 16);
}

/** The record is of a grant of ours, not of another client's. */
export function isOurs(object: LeaseObject, record: LeaseRecord): boolean {
  return noted(object, "grant") === record.leaseId;
}

/** Somebody holds it, by what the object says. */
export function isHeld({ spec }: LeaseObject): boolean {
  return Boolean(spec?.holderIdentity);
}

export function durationMsOf({ spec }: LeaseObject): number {
  return (spec?.leaseDurationSeconds ?? DEFAULT_DURATION_SECONDS) * 1_000;
}

/**
 * What the rules decide on, in milliseconds of our monotonic clock; null where nobody holds it and
 * nothing is known of a grant of ours. Its lease id is the digest of one.
 */
export function recordOf({ object, receivedMs }: Observed): LeaseRecord | null {
  const identity = object.spec?.holderIdentity ?? "";
  const [grant, holder] = [noted(object, "grant"), noted(object, "holder") ?? ""];
  const ours = grant !== undefined && (identity === "" || identity === identityOf(holder, grant));
  if (!ours && identity === "") return null;
  const { acquireTime, renewTime } = object.spec ?? {};
  const common = {
    // A grant of another client has none of its own.
    token: lastTokenOf(object),
    grantedAtMs: wallMsOf(acquireTime) ?? 0,
    renewedAtMs: renewTime === acquireTime ? null : wallMsOf(renewTime),
  };
  if (!ours) {
    return {
      ...common,
      // Nobody has a lease id with this digest.
      leaseId: digestOf(JSON.stringify([identity, acquireTime])),
      holder: identity,
      ttlMs: durationMsOf(object),
      expiresAtMs: receivedMs + durationMsOf(object),
      ended: null,
      metadata: null,
    };
  }
  const released = identity === "" ? "released" : null;
  return {
    ...common,
    leaseId: grant,
    holder,
    ttlMs: Number(noted(object, "ttl-ms")) || durationMsOf(object),
    expiresAtMs: identity === "" ? receivedMs : receivedMs + durationMsOf(object),
    ended: noted(object, "ended") === "revoked" ? "revoked" : released,
    metadata: noted(object, "metadata") ?? null,
  };
}

export function viewIn(key: Key, observed: Observed, nowMs: number): LeaseView | null {
  const record = recordOf(observed);
  if (!record) return null;
  const { grantedAtMs, renewedAtMs, leaseId } = record;
  // A release overwrites both times with its own.
  const text = (wallMs: number | null) =>
    wallMs === null || !isHeld(observed.object) ? null : new Date(wallMs).toISOString();
  return {
    ...viewOf(key, record, nowMs, String),
    grantId: grantIdIn(leaseId),
    grantedAt: text(grantedAtMs),
    renewedAt: text(renewedAtMs),
    expiresAt: null,
  };
}

/** Whose object it is; null for one of a name that we would not give to another client's lease. */
export function keyOf(object: LeaseObject): Key | null {
  const [namespace, resource] = [noted(object, "namespace"), noted(object, "resource")];
  if (namespace !== undefined && resource !== undefined) return { namespace, resource };
  const { name } = object.metadata;
  return isPlainName(name) ? { namespace: SHARED_NAMESPACE, resource: name } : null;
}

/** 0 where we have granted none. */
function lastTokenOf(object: LeaseObject): number {
  const token = Number(noted(object, "token") ?? 0);
  return Number.isSafeInteger(token) ? token : 0;
}

/** Of a version, as a number that grows with every write in the cluster; 0 where it is none. */
export function revisionOf({ metadata }: LeaseObject): number {
  const revision = Number(metadata.resourceVersion ?? 0);
  return Number.isSafeInteger(revision) ? revision : 0;
}

/**
 * The token of the next grant: above the last one, and above the sum of the server's time in
 * microseconds and the revision. The sum is for objects whose last token is lost. Deleted and made
 * again within a second, an object has a larger revision; in a cluster restored from a backup, the
 * revision starts over, but time has passed.
 */
export function nextTokenOf(object: LeaseObject, serverWallMs: number | null): number {
  const wallMs = serverWallMs ?? wallMsOf(object.metadata.creationTimestamp) ?? 0;
  return Math.max(lastTokenOf(object) + 1, wallMs * 1_000 + revisionOf(object));
}

/** When it was freed, by the wall clock of whoever did it. */
export function freedWallMsOf({ spec }: LeaseObject): number {
  return wallMsOf(spec?.renewTime) ?? 0;
}

export function identityOf(holder: string, digest: string): string {
  return `${holder}_${grantIdIn(digest)}`;
}

function wallMsOf(time: string | null | undefined): number | null {
  const wallMs = Date.parse(time ?? "");
  return Number.isNaN(wallMs) ? null : wallMs;
}
