/**
 * The contents of Leasehold's znodes: a lock records its last grant; a contender and a waiter describe
 * themselves.
 */
import type { LeaseState } from "../../lease/index.js";

/** The marker distinguishes Leasehold's data from that of other clients. */
const FORMAT = 1;

export interface GrantRecord {
  /** The UUID of the grant's contender, see keys.ts. */
  readonly contender: string;
  readonly grantId: string;
  readonly holder: string;
  readonly ttlMs: number;
  readonly metadata: string | null;
}

/**
 * The contents of a lock's znode: its last grant. Without `ended` it lives as long as its contender.
 */
export interface LockRecord extends GrantRecord {
  readonly ended?: Ended;
}
export interface Ended {
  readonly state: Exclude<LeaseState, "live">;
  readonly token: number;
  readonly grantedAtMs: number;
  readonly renewedAtMs: number | null;
}

/** The contents of a contender's znode. `ttlMs` counts from its holder's last write. */
export interface ContenderRecord extends GrantRecord {
  /** An operator revoked it; it still excludes others until then, by the server's clock. */
  readonly revoked?: { readonly freeAtMs: number; readonly renewedAtMs: number | null };
}

/** The contents of a waiter's znode. */
export interface WaiterRecord {
  readonly holder: string;
}

export function encode(record: LockRecord | ContenderRecord | WaiterRecord): Buffer {
  return Buffer.from(JSON.stringify({ leasehold: FORMAT, ...record }));
}

/** Returns null for data that Leasehold did not write. */
export function decode<R extends GrantRecord | WaiterRecord>(data: Buffer | undefined): R | null {
  const text = data?.toString() ?? "";
  if (!text.startsWith('{"leasehold":')) return null;
  try {
    const { leasehold, ...record } = JSON.parse(text) as { leasehold: number } & R;
    return leasehold === FORMAT ? (record as unknown as R) : null;
  } catch {
    return null;
  }
}
