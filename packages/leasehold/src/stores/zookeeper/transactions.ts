/** Reads and writes one lock, within a call's time and on one connection. */
import type { Key } from "../../core/index.js";
import type { Link } from "./connection.js";
import { type Driver, exact, MODES, type Stat } from "./connection-driver.js";
import { isRefused } from "./failures.js";
import { inOrder, type Paths, stepsTo, waitersInOrder } from "./keys.js";
import {
  type ContenderRecord,
  decode,
  encode,
  type LockRecord,
  type WaiterRecord,
} from "./records.js";

/** A lock at one instant. */
export interface Seen {
  /** Stat of its znode; null if there is none. */
  readonly stat: Stat | null;
  readonly data: Buffer | undefined;
  readonly record: LockRecord | null;
  /** In order; the first holds the lock. */
  readonly contenders: readonly string[];
}
const NOTHING: Seen = { stat: null, data: undefined, record: null, contenders: [] };

export interface Contender {
  readonly path: string;
  readonly stat: Stat;
  readonly token: number;
  /** The session it lives with. */
  readonly owner: string;
  /** Null for another kind of client. */
  readonly record: ContenderRecord | null;
  readonly data: Buffer | undefined;
}

/** A change, applied completely or not at all. */
export type Change =
  | { readonly create: string; readonly data: Buffer; readonly ephemeral?: true }
  | { readonly set: string; readonly data: Buffer; readonly version: number }
  | { readonly remove: string };

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
    for (;;) {
      try {
        this.#syncedMs = link.env.clock.monotonic();
        return timeOf(await link.setData(paths.sync, Buffer.alloc(0), -1, deadlineMs));
      } catch (error) {
        if (!isRefused(error, "NO_NODE")) throw error;
        await this.make(paths.sync);
      }
    }
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
    const owner = stat.ephemeralOwner.toString("hex");
    const record = decode<ContenderRecord>(data);
    return { path, stat, token: exact(stat.czxid), owner, record, data };
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

/** When it was renewed last, by the leader's wall clock; null if never. */
export function renewedAtOf({ stat, record }: Contender): number | null {
  if (record?.revoked) return record.revoked.renewedAtMs;
  return stat.version > 0 ? timeOf(stat) : null;
}

/** The change that records the end of a grant. */
export function trace(
  path: string,
  version: number,
  { contender, grantId, holder, ttlMs, metadata }: ContenderRecord,
  ended: NonNullable<LockRecord["ended"]>,
): Change {
  const record: LockRecord = { contender, grantId, holder, ttlMs, metadata, ended };
  return { set: path, data: encode(record), version };
}

/** Returns null if the znode does not exist. */
export async function orNull<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading;
  } catch (error) {
    if (isRefused(error, "NO_NODE")) return null;
    throw error;
  }
}
