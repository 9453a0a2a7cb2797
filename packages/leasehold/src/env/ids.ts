import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import type { Clock } from "./clock.js";
import type { Random } from "./random.js";

declare const brand: unique symbol;
/**
 * Identifies a grant to the store: the 16 hex digits of its {@link GrantId}, and 32 secret ones. With the whole id
 * anyone can renew and release the lease.
 */
export type LeaseId = string & { readonly [brand]: "LeaseId" };
/** The public name of a grant. It grants no right: stores compare whole lease ids. */
export type GrantId = string & { readonly [brand]: "GrantId" };

/** The character codes of the hex digits. */
const DIGITS = Array.from("0123456789abcdef", (digit) => digit.charCodeAt(0));

const GRANT_ID_DIGITS = 16;
const LEASE_ID_DIGITS = 48;

/** That many random bytes as hex digits. */
export function randomHex(random: Random, count: number): string {
  const codes = new Array<number>(2 * count);
  const bytes = random.bytes(count);
  for (let at = 0; at < count; at += 1) {
    const byte = bytes[at] as number;
    codes[2 * at] = DIGITS[byte >> 4] as number;
    codes[2 * at + 1] = DIGITS[byte & 15] as number;
  }
  // At once, not digit by digit: a text that grows is a tree of texts, of which a process would keep one for each lease.
  return String.fromCharCode(...codes);
}

/** 192 random bits as 48 hex digits: 64 public bits and 128 secret ones. */
export function newLeaseId(random: Random): LeaseId {
  return randomHex(random, LEASE_ID_DIGITS / 2) as LeaseId;
}

/**
 * The public name of a grant: the first 16 of the 48 hex digits of its lease id.
 * It may stand in logs and lists: the other 32 digits are the secret.
 * @example
 * ```ts
 * import { grantIdOf } from "leasehold/port";
 *
 * console.log(grantIdOf("0123456789abcdef00112233445566778899aabbccddeeff"));
 * ```
 */
export function grantIdOf(leaseId: string): GrantId {
  return leaseId.slice(0, GRANT_ID_DIGITS) as GrantId;
}

/** The SHA-256 of a text as 64 hex digits: to tell long names apart, and to know a secret again. */
export function digestOf(text: string): string {
  return nativeHash ? nativeHash("sha256", text) : bytesToHex(sha256(utf8ToBytes(text)));
}

/** Node's own digest, a tenth of the work. Not an import, which bundlers for browsers would have to resolve. */
const nativeHash = builtin("crypto")?.hash;

const KEY = /(lh_[0-9a-f]{12}_)[0-9a-f]{32}[0-9A-Za-z]{6}(?![0-9A-Za-z])/g;

/**
 * The text with `[lease]` in place of what may be a lease id, the id of a claim, or the secret of a key with its checksum:
 * for logs, where texts of others stand. Grant ids and UUIDs stay.
 */
export function withoutLeaseIds(text: string): string {
  const withoutKeys = text.replace(KEY, "$1[lease]");
  return withoutKeys.replace(/[0-9a-f]{32,}/gi, "[lease]");
}

/**
 * What the lease ids of a claim's tasks are made of. It follows from the claim's secret id, so a claim that is repeated
 * after a lost answer names the same grants. Computed once for all tasks of the claim.
 */
export function claimDigestOf(claimId: string): string {
  return digestOf(claimId).slice(0, LEASE_ID_DIGITS);
}

/**
 * The lease id of one task of a claim. The public half names the grant: 8 digits of the claim, 8 of the task. The secret
 * half is that of the claim, whose tasks all have the same holder.
 */
export function taskLeaseId(claimDigest: string, taskSeq: number): string {
  const task = (taskSeq % 2 ** 32).toString(16).padStart(8, "0");
  return claimDigest.slice(0, 8) + task + claimDigest.slice(GRANT_ID_DIGITS);
}

/**
 * The lease id of a grant that its holder's name addresses. Any reader of the record can derive it
 * from the `nonce` in it. It is a name, not a secret.
 */
export function holderLeaseId(
  namespace: string,
  resource: string,
  holder: string,
  nonce: string,
): string {
  const parts = JSON.stringify([namespace, resource, holder, nonce]);
  return digestOf(parts).slice(0, LEASE_ID_DIGITS);
}

/**
 * A source of task ids: UUIDv7, each greater than the one before, so that tasks enqueued together
 * sort in that order and an index on them stays dense. Within a millisecond (or while the wall clock
 * steps back) a counter goes on from a random start: 73 bits of chance keep sources apart.
 */
export function taskIds(clock: Clock, random: Random): () => string {
  let msecs = Number.NEGATIVE_INFINITY;
  let seq = 0;
  return () => {
    const nowMs = Math.floor(clock.wall());
    if (nowMs > msecs) {
      msecs = nowMs;
      seq = Math.floor(random.float() * 2 ** 31);
    } else {
      seq += 1;
    }
    return uuid7(msecs, seq, random.bytes(16));
  };
}

/**
 * A UUIDv7 of RFC 9562 with a counter of 32 bits after the time. Written here, because the package uuid loads
 * 20 modules, which was a quarter of the cost of importing this library.
 */
function uuid7(msecs: number, seq: number, bytes: Uint8Array): string {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  view.setUint32(0, Math.floor(msecs / 2 ** 16));
  view.setUint16(4, msecs % 2 ** 16);
  view.setUint16(6, 0x7000 | (seq >>> 20));
  view.setUint16(8, 0x8000 | ((seq >>> 6) & 0x3fff));
  view.setUint8(10, ((seq & 0x3f) << 2) | (view.getUint8(10) & 3));
  const hex = bytesToHex(bytes);
  const half = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}`;
  return `${half}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** As long as a label of the DNS may be. */
const LONGEST_HOST = 63;

/**
 * The default identity of this process: `HOST-PID-RANDOM`, at most 87 characters of `A-Za-z0-9.-`. It says where to
 * look for the holder, and 48 random bits make it unique. Without a process, as in browsers, `client-RANDOM`.
 */
export function newHolder(random: Random): string {
  const unique = bytesToHex(random.bytes(6));
  const place = placeOf(globalThis.process);
  return place === null ? `client-${unique}` : `${place}-${unique}`;
}

function placeOf(process: Partial<NodeJS.Process> | undefined): string | null {
  if (process?.pid === undefined) return null;
  const host = builtin("os")?.hostname() ?? "";
  const legal = host.replace(/[^A-Za-z0-9.-]+/g, "-").slice(0, LONGEST_HOST);
  return `${legal || "host"}-${process.pid}`;
}

/** A module of Node; undefined elsewhere. */
function builtin<Name extends "crypto" | "os">(name: Name) {
  const { process }: { process?: Partial<NodeJS.Process> } = globalThis;
  return process?.getBuiltinModule?.(name);
}
