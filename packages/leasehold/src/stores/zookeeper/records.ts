/** What our znodes say: the lock, of its last grant; a contender and a ticket, of themselves. */
import type { LeaseState } from "../../core/index.js";

/** The marker tells our text from what other clients keep in theirs. */
const FORMAT = 1;

export interface GrantRecord {
  /** The UUID of the grant's contender, see keys.ts. */
  readonly contender: string;
  readonly grantId: string;
  readonly holder: string;
  readonly ttlMs: number;
  readonly metadata: string | null;
}

/** In the znode of a lock: its last grant. Without `ended` it is alive as long as its contender. */
export interface LockRecord extends GrantRecord {
  readonly ended?: Ended;
}
export interface Ended {
  readonly state: Exclude<LeaseState, "live">;
  readonly token: number;
  readonly grantedAtMs: number;
  readonly renewedAtMs: number | null;
}

/** In the znode of a contender. `ttlMs` counts from when it was last written by its holder. */
export interface ContenderRecord extends GrantRecord {
  /** An operator has ended it; it still keeps others out until then, by the server's clock. */
  readonly revoked?: { readonly freeAtMs: number; readonly renewedAtMs: number | null };
}

/** In the znode of a ticket. */
export interface TicketRecord {
  readonly holder: string;
}

export function encode(record: LockRecord | ContenderRecord | TicketRecord): Buffer {
  return Buffer.from(JSON.stringify({ leasehold: FORMAT, ...record }));
}

/** Null for what we have not written. */
export function decode<R extends GrantRecord | TicketRecord>(data: Buffer | undefined): R | null {
  const text = data?.toString() ?? "";
  if (!text.startsWith('{"leasehold":')) return null;
  try {
    const { leasehold, ...record } = JSON.parse(text) as { leasehold: number } & R;
    return leasehold === FORMAT ? (record as unknown as R) : null;
  } catch {
    return null;
  }
}
