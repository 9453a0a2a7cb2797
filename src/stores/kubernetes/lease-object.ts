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
 * Other annotations, labels and fields go back as they came.
 */
import { digestOf } from "../../env/index.js";
import { type Key, type LeaseRecord, type LeaseView, viewOf } from "../../lease/index.js";
import { isPlainName, labelOf, SHARED_NAMESPACE } from "./names.js";

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
interface LeaseSpec {
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

const PREFIX = "leasehold.dev/";
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

/** An object that nobody holds yet: its revision is needed before it can be granted. */
export function newObject(name: string, key: Key): LeaseObject {
  return changed({ metadata: { name } }, key, {}, {});
}

/** With a new grant in it. */
export function grantedIn(object: LeaseObject, key: Key, record: LeaseRecord, times: Times) {
  const now = microTime(times.wallMs, null);
  const { acquireTime, leaseTransitions } = object.spec ?? {};
  return changed(
    object,
    key,
    {
      holderIdentity: identityOf(record.holder, record.leaseId),
      leaseDurationSeconds: secondsLeft(record, times),
      acquireTime: now,
      renewTime: now,
      leaseTransitions: acquireTime ? (leaseTransitions ?? 0) + 1 : 0,
    },
    {
      ...grantNotes(record),
      token: String(record.token),
      ended: undefined,
    },
  );
}

/** With the record's time; the holder, when it began and the transitions stay. */
export function renewedIn(object: LeaseObject, key: Key, record: LeaseRecord, times: Times) {
  return changed(
    object,
    key,
    {
      leaseDurationSeconds: secondsLeft(record, times),
      renewTime: microTime(times.wallMs, object.spec?.renewTime ?? null),
    },
    { "ttl-ms": String(record.ttlMs) },
  );
}

/** Free at once: as client-go releases. */
export function freedIn(object: LeaseObject, key: Key, record: LeaseRecord, times: Times) {
  const now = microTime(times.wallMs, null);
  return changed(
    object,
    key,
    { holderIdentity: "", leaseDurationSeconds: 1, acquireTime: now, renewTime: now },
    { ...grantNotes(record), ended: record.ended ?? undefined },
  );
}

/**
 * Free when its time is over, and not renewed until then. The holder's name stays in the way of
 * others; another client finds that it is not its own any more, and stops.
 */
export function revokedIn(object: LeaseObject, key: Key, record: LeaseRecord, times: Times) {
  return changed(
    object,
    key,
    {
      holderIdentity: identityOf(record.holder, record.leaseId),
      leaseDurationSeconds: secondsLeft(record, times),
    },
    { ...grantNotes(record), ended: "revoked" },
  );
}

/** Nothing is left of the grant that has ended but its token. */
export function forgottenIn(object: LeaseObject, key: Key, times: Times) {
  const now = microTime(times.wallMs, null);
  const held = { holderIdentity: "", leaseDurationSeconds: 1, acquireTime: now, renewTime: now };
  const names = ["grant", "holder", "ended", "ttl-ms", "metadata"];
  return changed(
    object,
    key,
    isHeld(object) ? held : {},
    Object.fromEntries(names.map((name) => [name, undefined])),
  );
}

/** Of the writer: its monotonic clock, and its wall clock for what people read. */
export interface Times {
  readonly nowMs: number;
  readonly wallMs: number;
}

/**
 * Whether whoever reads whole seconds, as client-go does, sees that the record has changed. If not,
 * its age goes on for them, and nobody may trust in the later write.
 */
export function looksChanged(before: LeaseObject, after: LeaseObject): boolean {
  const seen = ({ spec }: LeaseObject) =>
    [
      spec?.holderIdentity,
      spec?.leaseDurationSeconds,
      spec?.leaseTransitions,
      ...[spec?.acquireTime, spec?.renewTime].map((time) => time?.slice(0, 19)),
    ].join("\n");
  return seen(before) !== seen(after);
}

/** When it was freed, by the wall clock of whoever did it. */
export function freedWallMsOf({ spec }: LeaseObject): number {
  return wallMsOf(spec?.renewTime) ?? 0;
}

function identityOf(holder: string, digest: string): string {
  return `${holder}_${grantIdIn(digest)}`;
}

function grantNotes({ leaseId, holder, ttlMs, metadata }: LeaseRecord): Notes {
  return { grant: leaseId, holder, "ttl-ms": String(ttlMs), metadata: metadata ?? undefined };
}

function secondsLeft({ expiresAtMs }: LeaseRecord, { nowMs }: Times): number {
  // To the microsecond: sums of fractions would be a second longer.
  return Math.max(1, Math.ceil(Math.round((expiresAtMs - nowMs) * 1_000) / 1_000_000));
}

/** Undefined takes an annotation away. */
type Notes = Readonly<Record<string, string | undefined>>;

function changed(object: LeaseObject, key: Key, spec: LeaseSpec, notes: Notes): LeaseObject {
  const { metadata } = object;
  const named = { ...notes, namespace: key.namespace, resource: key.resource };
  const annotations = { ...metadata.annotations };
  for (const [name, text] of Object.entries(named)) {
    if (text === undefined) delete annotations[PREFIX + name];
    else annotations[PREFIX + name] = text;
  }
  const { [GRANT_LABEL]: _, ...others } = metadata.labels ?? {};
  const grant = annotations[`${PREFIX}grant`];
  const labels = {
    ...others,
    [NAMESPACE_LABEL]: labelOf(key.namespace),
    ...(grant === undefined ? {} : { [GRANT_LABEL]: grantIdIn(grant) }),
  };
  return {
    ...object,
    metadata: { ...metadata, labels, annotations },
    spec: { ...object.spec, ...spec },
  };
}

const MICRO_TIME = /^(.{19})(?:\.(\d{1,9}))?Z$/;

/** With exactly six digits behind the point, as the API server demands; another one than `last`. */
function microTime(wallMs: number, last: string | null): string {
  const micros = BigInt(Math.floor(wallMs)) * 1_000n;
  return text(last !== null && micros === microsOf(last) ? micros + 1n : micros);

  function text(at: bigint): string {
    const seconds = new Date(Number(at / 1_000n)).toISOString().slice(0, 19);
    return `${seconds}.${String(at % 1_000_000n).padStart(6, "0")}Z`;
  }
}

function microsOf(time: string): bigint | null {
  const [, seconds, fraction = ""] = MICRO_TIME.exec(time) ?? [];
  if (seconds === undefined) return null;
  return BigInt(Date.parse(`${seconds}Z`)) * 1_000n + BigInt(fraction.slice(0, 6).padEnd(6, "0"));
}

function wallMsOf(time: string | null | undefined): number | null {
  const wallMs = Date.parse(time ?? "");
  return Number.isNaN(wallMs) ? null : wallMs;
}
