/** Builds the next version of a Lease object, with a grant, a renewal or an end written into it. */
import { grantIdOf } from "../../env/index.js";
import type { Key, LeaseRecord } from "../../lease/index.js";
import { labelOf } from "./keys.js";
import {
  GRANT_LABEL,
  identityOf,
  isHeld,
  type LeaseObject,
  type LeaseSpec,
  NAMESPACE_LABEL,
  PREFIX,
} from "./records.js";

/**
 * A new object without a holder: the token needs its revision, so it is created before it is granted.
 */
export function newObject(name: string, key: Key): LeaseObject {
  return changed({ metadata: { name } }, key, {}, {});
}

/** Writes a new grant. */
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

/** Writes a renewal; the holder, the acquire time and the transitions stay. */
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

/** Frees the object at once, as client-go releases. */
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
 * Lets the grant expire without further renewals. The holder's name still blocks contenders; the
 * holder's client sees that the grant is revoked, and stops.
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

/** Removes everything about the ended grant except its token. */
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

/** The writer's clocks: the monotonic one for decisions, the wall clock for display. */
export interface Times {
  readonly nowMs: number;
  readonly wallMs: number;
}

/**
 * Reports whether a client that reads whole seconds, such as client-go, sees that the record changed.
 * If not, its age keeps growing for that client, and the holder must not trust the later write.
 */
export function isVisiblyChanged(before: LeaseObject, after: LeaseObject): boolean {
  const seen = ({ spec }: LeaseObject) =>
    [
      spec?.holderIdentity,
      spec?.leaseDurationSeconds,
      spec?.leaseTransitions,
      ...[spec?.acquireTime, spec?.renewTime].map((time) => time?.slice(0, 19)),
    ].join("\n");
  return seen(before) !== seen(after);
}

function grantNotes({ leaseId, holder, ttlMs, metadata }: LeaseRecord): Notes {
  return { grant: leaseId, holder, "ttl-ms": String(ttlMs), metadata: metadata ?? undefined };
}

function secondsLeft({ expiresAtMs }: LeaseRecord, { nowMs }: Times): number {
  // Rounds to microseconds: sums of fractions could be a second longer.
  return Math.max(1, Math.ceil(Math.round((expiresAtMs - nowMs) * 1_000) / 1_000_000));
}

/** Undefined removes an annotation. */
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
    ...(grant === undefined ? {} : { [GRANT_LABEL]: grantIdOf(grant) }),
  };
  return {
    ...object,
    metadata: { ...metadata, labels, annotations },
    spec: { ...object.spec, ...spec },
  };
}

const MICRO_TIME = /^(.{19})(?:\.(\d{1,9}))?Z$/;

/** Has exactly six decimal places, as the API server requires, and differs from `last`. */
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
