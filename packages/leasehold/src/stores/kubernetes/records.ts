/**
 * The Lease object (coordination.k8s.io/v1), as client-go's leader election reads and writes it, with
 * Leasehold's additions in annotations.
 *
 *   spec.holderIdentity          <holder>_<grant id>: readable, different for each grant; "" is free
 *   spec.leaseDurationSeconds    how long contenders must see the record unchanged
 *   spec.acquireTime, renewTime  by the holder's wall clock: only a change counts, not the value
 *   spec.leaseTransitions        incremented by each grant but the first
 *   leasehold.dev/grant          the grant id and a digest of the lease id, because many tools may read
 *                                objects; with leasehold.dev/holder it forms the holderIdentity. If that differs, another client holds the lease,
 *                                and the annotations describe an earlier grant
 *   leasehold.dev/token          token of the last Leasehold grant: kept if another client takes over
 *   leasehold.dev/ended          `released` or `revoked`
 *   leasehold.dev/ttl-ms, metadata, namespace, resource
 *   labels leasehold.dev/namespace, grant: for selecting objects
 *
 * Writes keep other annotations, labels and fields. records-changes.ts builds the next version.
 */

import { digestOf, grantIdOf } from "../../env/index.js";
import { type Key, type LeaseRecord, type LeaseView, viewOf } from "../../lease/index.js";
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

/** A version of an object, and when this store first saw it. */
export interface Observed {
  readonly object: LeaseObject;
  /**
   * By this process's monotonic clock. The write came earlier, so contenders count its age from here.
   */
  readonly receivedMs: number;
  /** A time before the write, from which the writer may trust it; null if another client wrote it. */
  readonly trustFromMs: number | null;
}

/** Lease objects count durations in whole seconds. */
export const WHOLE_MS = 1_000;
/** The prefix of Leasehold's annotations and labels. */
export const PREFIX = "leasehold.dev/";
/** The label that selects the objects of a Leasehold namespace. */
export const NAMESPACE_LABEL = `${PREFIX}namespace`;
/** The grant id of the last Leasehold grant, until it is collected. */
export const GRANT_LABEL = `${PREFIX}grant`;
/** The duration if a holder sets none: client-go's default for leader election. */
const DEFAULT_DURATION_SECONDS = 15;

function noted({ metadata }: LeaseObject, name: string): string | undefined {
  return metadata.annotations?.[PREFIX + name];
}

/** The lease id as the object has it: the grant id, then 48 digits of the SHA-256 of the whole lease id. */
export function storedIdOf(leaseId: string): string {
  return grantIdOf(leaseId) + digestOf(leaseId).slice(0, 48);
}

/** Reports whether a Leasehold client, not another client, wrote the current grant. */
export function isOurs(object: LeaseObject, record: LeaseRecord): boolean {
  return noted(object, "grant") === record.leaseId;
}

/** Reports whether the object names a holder. */
export function isHeld({ spec }: LeaseObject): boolean {
  return Boolean(spec?.holderIdentity);
}

export function durationMsOf({ spec }: LeaseObject): number {
  return (spec?.leaseDurationSeconds ?? DEFAULT_DURATION_SECONDS) * WHOLE_MS;
}

/**
 * Converts the object to the record that the rules decide on, in milliseconds of this process's
 * monotonic clock. Null if it has no holder and no known Leasehold grant. The lease id of the record is
 * the stored one.
 */
export function recordOf({ object, receivedMs }: Observed): LeaseRecord | null {
  const identity = object.spec?.holderIdentity ?? "";
  const [grant, holder] = [noted(object, "grant"), noted(object, "holder") ?? ""];
  const ours = grant !== undefined && (identity === "" || identity === identityOf(holder, grant));
  if (!ours && identity === "") return null;
  const { acquireTime, renewTime } = object.spec ?? {};
  const common = {
    token: lastTokenOf(object),
    grantedAtMs: wallMsOf(acquireTime) ?? 0,
    renewedAtMs: renewTime === acquireTime ? null : wallMsOf(renewTime),
  };
  if (!ours) {
    return {
      ...common,
      leaseId: "",
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
  const { holderIdentity, acquireTime } = observed.object.spec ?? {};
  // A release overwrites both times with its own.
  const text = (wallMs: number | null) =>
    wallMs === null || !isHeld(observed.object) ? null : new Date(wallMs).toISOString();
  return {
    ...viewOf(key, record, nowMs, String),
    // A grant of another client has no lease id.
    grantId: grantIdOf(leaseId || digestOf(JSON.stringify([holderIdentity, acquireTime]))),
    grantedAt: text(grantedAtMs),
    renewedAt: text(renewedAtMs),
    expiresAt: null,
  };
}

/** Returns the key of the object; null if another client's lease could not have this name. */
export function keyOf(object: LeaseObject): Key | null {
  const [namespace, resource] = [noted(object, "namespace"), noted(object, "resource")];
  if (namespace !== undefined && resource !== undefined) return { namespace, resource };
  const { name } = object.metadata;
  return isPlainName(name) ? { namespace: SHARED_NAMESPACE, resource: name } : null;
}

/** 0 if Leasehold has granted none. */
function lastTokenOf(object: LeaseObject): number {
  const token = Number(noted(object, "token") ?? 0);
  return Number.isSafeInteger(token) ? token : 0;
}

/**
 * Returns the revision as a number that grows with every write in the cluster; 0 if it is not a number.
 */
export function revisionOf({ metadata }: LeaseObject): number {
  const revision = Number(metadata.resourceVersion ?? 0);
  return Number.isSafeInteger(revision) ? revision : 0;
}

/**
 * Returns the token of the next grant: above the last one, and above the sum of the server's time in
 * microseconds and the revision. The sum covers objects whose last token is lost. An object deleted and
 * created again within a second has a larger revision. In a cluster restored from a backup the revision
 * restarts, but time has passed.
 */
export function nextTokenOf(object: LeaseObject, serverWallMs: number | null): number {
  const wallMs = serverWallMs ?? wallMsOf(object.metadata.creationTimestamp) ?? 0;
  return Math.max(lastTokenOf(object) + 1, wallMs * 1_000 + revisionOf(object));
}

/** When it was freed, by the wall clock of the client that freed it. */
export function freedWallMsOf({ spec }: LeaseObject): number {
  return wallMsOf(spec?.renewTime) ?? 0;
}

export function identityOf(holder: string, storedId: string): string {
  return `${holder}_${grantIdOf(storedId)}`;
}

function wallMsOf(time: string | null | undefined): number | null {
  const wallMs = Date.parse(time ?? "");
  return Number.isNaN(wallMs) ? null : wallMs;
}
