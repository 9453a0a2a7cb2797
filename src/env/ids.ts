import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex, utf8ToBytes } from "@noble/hashes/utils.js";
import { v7 } from "uuid";
import type { Clock } from "./clock.js";
import type { Random } from "./random.js";

/** 128 random bits as 32 hex digits. Whoever knows a lease id may renew and release the grant. */
export function newLeaseId(random: Random): string {
  return bytesToHex(random.bytes(16));
}

/**
 * The public name of a grant: the first 16 hex digits of the SHA-256 of its lease id.
 * It may stand in logs and lists, because it does not give the lease id away.
 */
export function grantIdOf(leaseId: string): string {
  return bytesToHex(sha256(utf8ToBytes(leaseId))).slice(0, 16);
}

/**
 * The lease id of one task of a claim. It follows from the claim's secret id, so a claim that is
 * repeated after a lost answer names the same grants.
 */
export function taskLeaseId(claimId: string, taskId: string): string {
  return bytesToHex(sha256(utf8ToBytes(`${claimId}:${taskId}`))).slice(0, 32);
}

/** A UUIDv7: ids made later sort later, which keeps an index on them dense. */
export function newTaskId(clock: Clock, random: Random): string {
  return v7({ msecs: clock.wall(), random: random.bytes(16) });
}

/** The default identity of this process incarnation: readable, and unique by 48 random bits. */
export function newHolder(random: Random): string {
  const pid = typeof process === "object" ? process.pid : 0;
  return `pid-${pid}-${bytesToHex(random.bytes(6))}`;
}
