/** Reads and writes one lock, within a call's time and on one connection. */
import type { Key, LeaseRecord } from "../../lease/index.js";
import type { Link } from "./connection.js";
import { type Driver, exact, MODES, type Stat } from "./connection-driver.js";
import { type Code, isRefused, Refused } from "./failures.js";
import {
  contenderOf,
  contenderPrefix,
  inOrder,
  type Paths,
  stepsTo,
  waitersInOrder,
} from "./keys.js";
import {
  type ContenderRecord,
  decode,
  type Ended,
  encode,
  type GrantRecord,
  type LockRecord,
  type WaiterRecord,
} from "./records.js";

/** What the znode of a lock says. */
export interface LockState {
  /** Stat of its znode; null if there is none. */
  readonly stat: Stat | null;
  readonly record: LockRecord | null;
}
/** A lock at one instant. */
export interface Seen extends LockState {
  readonly data: Buffer | undefined;
  /** In order; the first holds the lock. */
  readonly contenders: readonly string[];
}
const NOTHING: Seen = { stat: null, data: undefined, record: null, contenders: [] };

export interface Contender {
  readonly path: string;
  readonly version: number;
  readonly token: number;
  /** The session it lives with. */
  readonly owner: string;
  readonly holder: string;
  /** Null for another kind of client. */
  readonly record: ContenderRecord | null;
  /** Times by the leader's wall clock. */
  readonly grantedAtMs: number;
  /** Null if it never was. */
  readonly renewedAtMs: number | null;
  /** When its TTL ends, or the TTL that it had when an operator revoked it. */
  readonly dueMs: number;
}

/** A change, applied completely or not at all. */
export type Change =
  | { readonly create: string; readonly data: Buffer; readonly ephemeral?: true }
  | { readonly set: string; readonly data: Buffer; readonly version: number }
  | { readonly remove: string };

/** Tracks whether a request may have taken effect without confirmation. */
export interface Doubt {
  unknown: boolean;
  /** A response was lost, or its effect is unconfirmed: sync before the next read. */
  careful: boolean;
}

/** One attempt to decide a request. */
export interface Call {
  readonly talk: Talk;
  /** See {@link idOf}; empty for a request without a lease id. */
  readonly id: string;
  /** It is shared by all attempts of the request. */
  readonly doubt: Doubt;
}

/** The requests of one call, or of one batch, on one connection. */
export class Talk {
  #synced: Promise<number> | undefined;
  #syncedMs = Number.NEGATIVE_INFINITY;

  constructor(
    readonly link: Link,
    readonly deadlineMs: number,
    readonly paths: Paths,
    readonly acls: unknown,
  ) {}

  /** Creates one for a reaction to an event, on the same connection. */
  later(timeoutMs: number): Talk {
    const deadlineMs = this.link.env.clock.monotonic() + timeoutMs;
    return new Talk(this.link, deadlineMs, this.paths, this.acls);
  }

  /**
   * Syncs the server: later reads are no older than this call. A follower may lag behind without
   * notice. But a server processes a session's requests in order, and confirms a write only after it
   * has received it from the leader, together with all earlier changes.
   * @returns the leader's time, by its wall clock
   */
  sync(): Promise<number> {
    this.#synced ??= this.#sync();
    return this.#synced;
  }

  /** When the sync was sent, by this process's monotonic clock. */
  get syncedMs(): number {
    return this.#syncedMs;
  }

  async #sync(): Promise<number> {
    const { link, paths, deadlineMs } = this;
    const stat = await this.below(paths.sync, () => {
      this.#syncedMs = link.env.clock.monotonic();
      return link.setData(paths.sync, Buffer.alloc(0), -1, deadlineMs);
    });
    return timeOf(stat);
  }

  /** Writes to a znode or below it, after creating that znode if it is missing. */
  async below<T extends object>(path: string, write: () => Promise<T | Refused>): Promise<T> {
    for (;;) {
      const done = await refusedOr(write(), "NO_NODE");
      if (!(done instanceof Refused)) return done;
      await this.make(path);
    }
  }

  /** Reads a lock as of this call or later, with the leader's time. The server processes these in order. */
  async latest(key: Key): Promise<Seen & { readonly nowMs: number }> {
    const [nowMs, seen] = await Promise.all([this.sync(), this.read(key)]);
    return { ...seen, nowMs };
  }

  /** Returns what {@link read} would see if there are no contenders, with one request; null if there are. */
  async glance(key: Key): Promise<Seen | null> {
    const own = await orNull(this.link.getData(this.paths.lock(key), this.deadlineMs));
    if (!own) return NOTHING;
    const { stat, data } = own;
    if (stat.numChildren > 0) return null;
    return { stat, data, record: decode<LockRecord>(data), contenders: [] };
  }

  async read(key: Key): Promise<Seen> {
    const path = this.paths.lock(key);
    for (;;) {
      const [own, below] = await Promise.all([
        orNull(this.link.getData(path, this.deadlineMs)),
        orNull(this.link.getChildren(path, this.deadlineMs)),
      ]);
      if (!own && !below) return NOTHING;
      // A grant changes both at once: if they disagree, this reads again.
      if (own?.stat.version !== below?.stat.version || !own || !below) continue;
      if (!own.stat.czxid.equals(below.stat.czxid)) continue;
      const { stat, data } = own;
      return {
        stat,
        data,
        record: decode<LockRecord>(data),
        contenders: inOrder(below.children),
      };
    }
  }

  /** Returns the names of its waiters, in queue order. */
  async waiters(key: Key): Promise<string[]> {
    const found = await orNull(this.link.getChildren(this.paths.queue(key), this.deadlineMs));
    return waitersInOrder(found?.children ?? []);
  }

  /** Returns the holder named by a waiter; empty if the waiter is gone. */
  async waiterOf(key: Key, waiter: string): Promise<string> {
    const path = `${this.paths.queue(key)}/${waiter}`;
    const found = await orNull(this.link.getData(path, this.deadlineMs));
    return decode<WaiterRecord>(found?.data)?.holder ?? "";
  }

  /** Returns null if it is gone. */
  async contender(key: Key, name: string): Promise<Contender | null> {
    const path = `${this.paths.lock(key)}/${name}`;
    const found = await orNull(this.link.getData(path, this.deadlineMs));
    if (!found) return null;
    const { stat, data } = found;
    const { version } = stat;
    const record = decode<ContenderRecord>(data);
    const revoked = record?.revoked;
    const writtenAtMs = timeOf(stat);
    return {
      path,
      version,
      token: exact(stat.czxid),
      owner: stat.ephemeralOwner.toString("hex"),
      holder: record?.holder ?? foreignHolder(data, name),
      record,
      grantedAtMs: exact(stat.ctime),
      renewedAtMs: revoked ? revoked.renewedAtMs : version > 0 ? writtenAtMs : null,
      dueMs: revoked?.freeAtMs ?? writtenAtMs + (record?.ttlMs ?? 0),
    };
  }

  /**
   * @returns for each change the path of a created znode, or the stat of a written one
   */
  async commit(changes: readonly Change[]) {
    const transaction = this.link.client.transaction();
    for (const change of changes) {
      if ("create" in change) {
        const mode = change.ephemeral ? MODES.ephemeralSequential : MODES.persistent;
        transaction.create(change.create, change.data, this.acls, mode);
      } else if ("set" in change) {
        transaction.setData(change.set, change.data, change.version);
        // The driver treats 0 as "any".
        const last = transaction.ops.at(-1);
        if (last) last.version = change.version;
      } else transaction.remove(change.remove, -1);
    }
    return this.link.commit(transaction, this.deadlineMs);
  }

  /** Creates a znode and its ancestors, as far as they are missing. */
  async make(path: string): Promise<void> {
    for (const step of stepsTo(path)) {
      try {
        await this.commit([{ create: step, data: Buffer.alloc(0) }]);
      } catch (error) {
        if (isRefused(error, "NODE_EXISTS")) continue;
        // A user without the right to create the ancestors may find them existing.
        if (!isRefused(error, "NO_AUTH") || step === path) throw error;
      }
    }
  }
}

export function aclsOf(driver: Driver, auth: string | undefined): unknown {
  return auth === undefined ? driver.ACL.OPEN_ACL_UNSAFE : driver.ACL.CREATOR_ALL_ACL;
}

/** By the leader's wall clock. */
export function timeOf(stat: Stat): number {
  return exact(stat.mtime);
}

/**
 * The grant of the first contender, for the rules. It excludes others for as long as its znode exists: how long that
 * still is, is unknown of another kind of client, and after the TTL. Of its lease id, only its holder knows.
 * @param nowMs the leader's time
 */
export function grantOf(contender: Contender, nowMs: number): LeaseRecord {
  const { holder, token, record, grantedAtMs, renewedAtMs, dueMs } = contender;
  const { ttlMs = 0, metadata = null } = record ?? {};
  const isDated = record !== null && nowMs < dueMs;
  return {
    leaseId: "",
    holder,
    token,
    ttlMs,
    grantedAtMs,
    renewedAtMs,
    expiresAtMs: isDated ? Math.min(dueMs, nowMs + ttlMs) : Number.POSITIVE_INFINITY,
    ended: record?.revoked ? "revoked" : null,
    metadata,
  };
}

/**
 * The last grant of a free lock, for the rules; null: it has had none.
 * @param leaseId that of the request: the lock says whether it is that of the grant
 * @param endedAtMs when the lock became free
 */
export function lastGrantOf(
  { stat, record }: LockState,
  leaseId: string,
  endedAtMs: number,
): LeaseRecord | null {
  if (!stat) return null;
  const { contender, holder = "", ttlMs = 0, metadata = null, ended } = record ?? {};
  const { state = "expired", token = 0, grantedAtMs = 0, renewedAtMs = null } = ended ?? {};
  return {
    leaseId: contender === contenderOf(leaseId) ? leaseId : "",
    holder,
    token,
    ttlMs,
    grantedAtMs,
    renewedAtMs,
    expiresAtMs: endedAtMs,
    ended: state === "expired" ? null : state,
    metadata,
  };
}

/** The name of a holder that is another kind of client. */
function foreignHolder(data: Buffer | undefined, name: string): string {
  const text = data?.toString() ?? "";
  // Excludes control characters, which a terminal would act on.
  return /^[^\p{Cc}\ufffd]{1,256}$/u.test(text) ? text : name;
}

/** The changes that end the grant of this contender. */
export function endingOf(
  talk: Talk,
  key: Key,
  { path, record, token, grantedAtMs, renewedAtMs }: Contender,
  { stat, record: last }: LockState,
  state: Ended["state"],
): Change[] {
  if (!record || last?.contender !== record.contender || !stat) return [{ remove: path }];
  const revoked = state === "expired" && record.revoked !== undefined;
  const ended = { state: revoked ? "revoked" : state, token, grantedAtMs, renewedAtMs } as const;
  return [{ remove: path }, trace(talk.paths.lock(key), stat.version, record, ended)];
}

/** The contender of a lease id. */
export function ownOf({ contenders }: Seen, leaseId: string): string | undefined {
  const prefix = contenderPrefix(contenderOf(leaseId));
  return contenders.find((name) => name.startsWith(prefix));
}

/** The change that records the end of a grant. */
export function trace(
  path: string,
  version: number,
  { contender, grantId, holder, ttlMs, metadata }: GrantRecord,
  ended: Ended,
): Change {
  return {
    set: path,
    data: encode({ contender, grantId, holder, ttlMs, metadata, ended }),
    version,
  };
}

/**
 * A write that leaves the doubt whether it was applied, until it is answered.
 * @returns why it was refused, as the state has changed
 */
export async function written<T>(doubt: Doubt, writing: Promise<T>): Promise<T | Refused> {
  const { unknown } = doubt;
  doubt.unknown = true;
  const done = await refusedOr(writing, "NO_NODE", "BAD_VERSION", "NODE_EXISTS");
  doubt.unknown = unknown;
  return done;
}

/** Returns the refusal if it has one of these codes. */
export async function refusedOr<T>(
  doing: Promise<T>,
  ...codes: readonly Code[]
): Promise<T | Refused> {
  try {
    return await doing;
  } catch (error) {
    if (isRefused(error, ...codes)) return error;
    throw error;
  }
}

/** Returns null if the znode does not exist. */
export async function orNull<T>(reading: Promise<T>): Promise<T | null> {
  const found = await refusedOr(reading, "NO_NODE");
  return found instanceof Refused ? null : found;
}
