/** What is read and written of one lock, within a call's time and on one connection. */
import type { Key } from "../../core/index.js";
import type { Link } from "./connection.js";
import { type Driver, exact, MODES, type Stat } from "./connection-driver.js";
import { isRefused } from "./failures.js";
import { inOrder, type Paths, stepsTo, ticketsInOrder } from "./keys.js";
import {
  type ContenderRecord,
  decode,
  encode,
  type LockRecord,
  type TicketRecord,
} from "./records.js";

/** A lock at one moment. */
export interface Seen {
  /** Of its znode; null where there is none. */
  readonly stat: Stat | null;
  readonly data: Buffer | undefined;
  readonly record: LockRecord | null;
  /** By their names; the first has the lock. */
  readonly contenders: readonly string[];
}
const NOTHING: Seen = { stat: null, data: undefined, record: null, contenders: [] };

export interface Contender {
  readonly path: string;
  readonly stat: Stat;
  readonly token: number;
  /** Whose session it lives with. */
  readonly owner: string;
  /** Null for another kind of client's. */
  readonly record: ContenderRecord | null;
  readonly data: Buffer | undefined;
}

/** A change, all of it or nothing. */
export type Change =
  | { readonly create: string; readonly data: Buffer; readonly ephemeral?: true }
  | { readonly set: string; readonly data: Buffer; readonly version: number }
  | { readonly remove: string };

/** What is asked on one connection by one call, or by one batch of it. */
export class Talk {
  #synced: Promise<number> | undefined;
  #syncedMs = Number.NEGATIVE_INFINITY;

  constructor(
    readonly link: Link,
    readonly deadlineMs: number,
    readonly paths: Paths,
    readonly acls: unknown,
  ) {}

  /** For what follows from an event, on the same connection. */
  later(timeoutMs: number): Talk {
    const deadlineMs = this.link.env.clock.monotonic() + timeoutMs;
    return new Talk(this.link, deadlineMs, this.paths, this.acls);
  }

  /**
   * Has the server catch up: what is read behind this is no older than this call. A follower may lag
   * behind, and says so to nobody; but a session's requests are answered in order, and a write is
   * answered when it has come back from the leader, with all that was before it.
   * @returns the leader's time, by its wall clock
   */
  sync(): Promise<number> {
    this.#synced ??= this.#sync();
    return this.#synced;
  }

  /** When the catch-up was sent, by this process's monotonic clock. */
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

  /** What {@link look} would see where nobody contends, for one request; null where somebody does. */
  async glance(key: Key): Promise<Seen | null> {
    const own = await orNull(this.link.getData(this.paths.lock(key), this.deadlineMs));
    if (!own) return NOTHING;
    const { stat, data } = own;
    if (stat.numChildren > 0) return null;
    return { stat, data, record: decode<LockRecord>(data), contenders: [] };
  }

  async look(key: Key): Promise<Seen> {
    const path = this.paths.lock(key);
    for (;;) {
      const [own, below] = await Promise.all([
        orNull(this.link.getData(path, this.deadlineMs)),
        orNull(this.link.getChildren(path, this.deadlineMs)),
      ]);
      if (!own && !below) return NOTHING;
      // A grant changes both at once: here they are of one moment, or looked at again.
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

  /** The tickets for it, by their names, in the order in which they came. */
  async tickets(key: Key): Promise<string[]> {
    const found = await orNull(this.link.getChildren(this.paths.queue(key), this.deadlineMs));
    return ticketsInOrder(found?.children ?? []);
  }

  /** Who has left a ticket; empty when it is gone. */
  async waiterOf(key: Key, ticket: string): Promise<string> {
    const path = `${this.paths.queue(key)}/${ticket}`;
    const found = await orNull(this.link.getData(path, this.deadlineMs));
    return decode<TicketRecord>(found?.data)?.holder ?? "";
  }

  /** Null when it is gone. */
  async contender(key: Key, name: string): Promise<Contender | null> {
    const path = `${this.paths.lock(key)}/${name}`;
    const found = await orNull(this.link.getData(path, this.deadlineMs));
    if (!found) return null;
    const { stat, data } = found;
    const owner = stat.ephemeralOwner.toString("hex");
    const record = decode<ContenderRecord>(data);
    return { path, stat, token: exact(stat.czxid), owner, record, data };
  }

  /** @returns the paths of what was created, and what was written, one for each change */
  async commit(changes: readonly Change[]) {
    const transaction = this.link.client.transaction();
    for (const change of changes) {
      if ("create" in change) {
        const mode = change.ephemeral ? MODES.ephemeralSequential : MODES.persistent;
        transaction.create(change.create, change.data, this.acls, mode);
      } else if ("set" in change) {
        transaction.setData(change.set, change.data, change.version);
        // The driver would take 0 for "any".
        const last = transaction.ops.at(-1);
        if (last) last.version = change.version;
      } else transaction.remove(change.remove, -1);
    }
    return this.link.commit(transaction, this.deadlineMs);
  }

  /** Makes a znode and all that lead to it, unless they are there. */
  async make(path: string): Promise<void> {
    for (const step of stepsTo(path)) {
      try {
        await this.commit([{ create: step, data: Buffer.alloc(0) }]);
      } catch (error) {
        if (isRefused(error, "NODE_EXISTS")) continue;
        // Whoever may not make the upper ones may find them made.
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

/** The change that leaves the trace of a grant that ends. */
export function trace(
  path: string,
  version: number,
  { contender, grantId, holder, ttlMs, metadata }: ContenderRecord,
  ended: NonNullable<LockRecord["ended"]>,
): Change {
  const record: LockRecord = { contender, grantId, holder, ttlMs, metadata, ended };
  return { set: path, data: encode(record), version };
}

/** Null where there is no such znode. */
export async function orNull<T>(reading: Promise<T>): Promise<T | null> {
  try {
    return await reading;
  } catch (error) {
    if (isRefused(error, "NO_NODE")) return null;
    throw error;
  }
}
