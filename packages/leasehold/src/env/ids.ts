import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { v7 } from "uuid";
import type { Clock } from "./clock.js";
import type { Random } from "./random.js";

declare const brand: unique symbol;
/** Identifies a grant to the store. A secret: with it anyone can renew and release the lease. */
export type LeaseId = string & { readonly [brand]: "LeaseId" };
/** The public name of a grant, which does not reveal its {@link LeaseId}. */
export type GrantId = string & { readonly [brand]: "GrantId" };

/** The character codes of the hex digits. */
const DIGITS = Array.from("0123456789abcdef", (digit) => digit.charCodeAt(0));

/** 128 random bits as 32 hex digits. */
export function newLeaseId(random: Random): LeaseId {
  const codes = new Array<number>(32);
  const bytes = random.bytes(16);
  for (let at = 0; at < 16; at += 1) {
    const byte = bytes[at] as number;
    codes[2 * at] = DIGITS[byte >> 4] as number;
    codes[2 * at + 1] = DIGITS[byte & 15] as number;
  }
  // At once, not digit by digit: a text that grows is a tree of texts, of which a process would keep one for each lease.
  return String.fromCharCode(...codes) as LeaseId;
}

/**
 * The public name of a grant: the first 16 hex digits of the SHA-256 of its lease id.
 * It may stand in logs and lists, because it does not give the lease id away.
 * @example
 * ```ts
 * import { grantIdOf } from "leasehold/port";
 *
 * console.log(grantIdOf("0123456789abcdef0123456789abcdef"));
 * ```
 */
export function grantIdOf(leaseId: string): GrantId {
  return digestOf(leaseId).slice(0, 16) as GrantId;
}

/** The SHA-256 of a text as 64 hex digits: to tell long names apart, and to know a secret again. */
export function digestOf(text: string): string {
  return nativeHash ? nativeHash("sha256", text) : bytesToHex(sha256(utf8ToBytes(text)));
}

/** Node's own digest, a tenth of the work. Not an import, which bundlers for browsers would have to resolve. */
const nativeHash = builtin("crypto")?.hash;

/**
 * The text with `[lease]` in place of what may be a lease id or the id of a claim: for logs, where
 * texts of others stand. Grant ids and UUIDs stay.
 */
export function withoutLeaseIds(text: string): string {
  return text.replace(/[0-9a-f]{32,}/gi, "[lease]");
}

/**
 * The lease id of one task of a claim. It follows from the claim's secret id, so a claim that is
 * repeated after a lost answer names the same grants.
 */
export function taskLeaseId(claimId: string, taskId: string): string {
  return digestOf(`${claimId}:${taskId}`).slice(0, 32);
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
  return digestOf(parts).slice(0, 32);
}

/**
 * A source of task ids: UUIDv7, each greater than the one before, so that tasks enqueued together
 * run in that order and an index on them stays dense. Within a millisecond (or while the wall clock
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
    return v7({ msecs, seq, random: random.bytes(16) });
  };
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
