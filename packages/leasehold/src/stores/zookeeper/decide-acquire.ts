/**
 * Acquires leases. A lock's znode records its last grant. The grant itself is an ephemeral znode below
 * it, which Curator clients see as a contender.
 *
 *   acquire   read ─▶ no contender ──▶ one transaction: write the lock's znode if its version is
 *                     │                  unchanged, and create our contender
 *                     │                    ├── refused: another client was faster; read again
 *                     │                    └── done ─▶ are we first? ─▶ acquired; token: its czxid
 *                     │                                  └── a Curator client was faster:
 *                     ▼                                      delete ours, read again
 *                  sync, read again ─▶ ours: the result of a repeated request
 *                                          another's: held
 *   renew     write our contender if its version is unchanged: detects an operator's mark
 *   release   one transaction: delete our contender, and write into the lock's znode how it ended
 *
 * Failures. After a lost response, a sync and a read show whether our contender exists: they find it by
 * its UUID, or it will never be created, because servers reject requests from connections that the
 * session has left. If the caller gives up earlier, own-grants.ts keeps a record, and the contender is
 * deleted at the end of its TTL or with the session.
 */

import type { AcquireOutcome, AcquireRequest } from "../../core/index.js";
import { type Clock, grantIdOf } from "../../env/index.js";
import { exact } from "./connection-driver.js";
import {
  AGAIN,
  type Again,
  acquired,
  adopt,
  type Doubt,
  foreignHolder,
  ownOf,
  readAfterSync,
  withdraw,
} from "./decide-contenders.js";
import { isRefused } from "./failures.js";
import { contenderOf, contenderPrefix, inOrder } from "./keys.js";
import type { OwnGrant, OwnGrants } from "./own-grants.js";
import { type ContenderRecord, encode } from "./records.js";
import { type Contender, type Seen, type Talk, timeOf } from "./transactions.js";
import {
  type QueuePosition,
  readPosition,
  reservedForMs,
  UNREAD,
  type WaitQueue,
} from "./wait-queue.js";

export class Holding {
  constructor(
    readonly clock: Clock,
    readonly own: OwnGrants,
    readonly queue: WaitQueue,
  ) {}

  async acquire(
    talk: Talk,
    id: string,
    request: AcquireRequest,
    doubt: Doubt,
  ): Promise<AcquireOutcome | Again> {
    const { leaseId, queueMs = 0 } = request;
    const sentMs = this.clock.monotonic();
    const uuid = contenderOf(leaseId);
    if (!doubt.careful) {
      // A free lock needs no sync, because the transaction verifies it. Any other outcome must be no
      // older than the request.
      const [glance, position] = await Promise.all([
        talk.glance(request),
        readPosition(talk, request),
      ]);
      if (glance && glance.record?.contender !== uuid && position.ahead === 0) {
        return this.#grant(talk, id, request, glance, position, doubt);
      }
      doubt.careful = true;
    }
    // The server processes these in order, so no waiter from before the release is missed.
    const [seen, known] = await Promise.all([
      readAfterSync(talk, request),
      queueMs > 0 ? readPosition(talk, request) : null,
    ]);
    const [first] = seen.contenders;
    const mine = ownOf(seen, leaseId);
    const named = seen.record?.contender === uuid;
    let reservedMs = 0;
    // A request that does not wait, for a held lock, skips the wait queue.
    const concerned = first === undefined || mine !== undefined;
    const position = known ?? (concerned ? await readPosition(talk, request) : UNREAD);
    if (first === undefined && !named) {
      doubt.unknown = false;
      reservedMs = await this.queue.reservationLeftMs(talk, request, seen, position.ahead);
      if (reservedMs === 0) return this.#grant(talk, id, request, seen, position, doubt);
    }
    if (mine === undefined) {
      doubt.unknown = false;
      this.own.forget(id);
      if (named) return { status: "ended" };
      if (queueMs > 0) {
        if (position.ownIndex < 0) {
          await this.queue.add(talk, id, request, doubt);
          // From here on the watch reports every change.
          return AGAIN;
        }
        this.queue.track(id, request);
      }
    }
    if (reservedMs > 0) return this.#reserved(talk, id, request, position, reservedMs);
    const contender = await talk.contender(request, first ?? "");
    if (!contender) return AGAIN;
    if (mine !== undefined && mine !== first) {
      await withdraw(this.own, talk, id, request, mine, seen.stat?.version ?? -1);
      doubt.unknown = false;
      return AGAIN;
    }
    if (mine !== undefined && contender.owner === talk.link.owner) {
      doubt.unknown = false;
      if (contender.record?.revoked) return { status: "ended" };
      const grant = adopt(this.own, this.clock, id, request, contender, seen);
      await this.#onGranted(talk, id, request, position, doubt);
      return acquired(grant, talk, { sentMs, provenMs: talk.syncedMs, promisedMs: grant.untilMs });
    }
    return this.#held(talk, id, request, contender, position);
  }

  async #grant(
    talk: Talk,
    id: string,
    request: AcquireRequest,
    seen: Seen,
    position: QueuePosition,
    doubt: Doubt,
  ): Promise<AcquireOutcome | Again> {
    const { leaseId, holder, ttlMs, metadata = null } = request;
    const record: ContenderRecord = {
      contender: contenderOf(leaseId),
      grantId: grantIdOf(leaseId),
      holder,
      ttlMs,
      metadata,
    };
    const lock = talk.paths.lock(request);
    const data = encode(record);
    const sentMs = this.clock.monotonic();
    const { namespace, resource } = request;
    const grant: OwnGrant = {
      id,
      grant: { namespace, resource, leaseId },
      record,
      ttlMs,
      untilMs: sentMs + ttlMs,
      node: null,
    };
    this.own.put(grant);
    doubt.unknown = true;
    doubt.careful = true;
    let path: string;
    try {
      const results = await talk.commit([
        seen.stat ? { set: lock, data, version: seen.stat.version } : { create: lock, data },
        { create: `${lock}/${contenderPrefix(record.contender)}`, data, ephemeral: true },
      ]);
      path = results[1]?.path ?? "";
    } catch (error) {
      if (!isRefused(error, "NO_NODE", "BAD_VERSION", "NODE_EXISTS")) throw error;
      this.own.forget(id);
      doubt.unknown = false;
      if (isRefused(error, "NO_NODE") && !seen.stat) {
        await talk.make(talk.paths.namespace(namespace));
      }
      return AGAIN;
    }
    const name = path.slice(lock.length + 1);
    const lockVersion = seen.stat ? seen.stat.version + 1 : 0;
    const { children, stat } = await talk.link.getChildren(lock, talk.deadlineMs);
    doubt.unknown = false;
    // An operator has ended it already.
    if (stat.version !== lockVersion || !children.includes(name)) return AGAIN;
    if (inOrder(children)[0] !== name) {
      doubt.unknown = true;
      await withdraw(this.own, talk, id, request, name, lockVersion, seen.data);
      doubt.unknown = false;
      return AGAIN;
    }
    grant.untilMs = this.clock.monotonic() + ttlMs;
    grant.node = {
      path,
      owner: talk.link.owner,
      version: 0,
      lockVersion,
      // One transaction wrote both.
      token: exact(stat.mzxid),
      grantedAtMs: timeOf(stat),
      renewedAtMs: null,
    };
    await this.#onGranted(talk, id, request, position, doubt);
    return acquired(grant, talk, { sentMs, provenMs: sentMs, promisedMs: sentMs + ttlMs });
  }

  async #onGranted(
    talk: Talk,
    id: string,
    request: AcquireRequest,
    position: QueuePosition,
    doubt: Doubt,
  ): Promise<void> {
    doubt.unknown = true;
    await this.queue.onGranted(talk, id, request, position);
    doubt.unknown = false;
  }

  /** The lock is free, but reserved for other waiters. */
  async #reserved(
    talk: Talk,
    id: string,
    request: AcquireRequest,
    position: QueuePosition,
    remainingMs: number,
  ): Promise<AcquireOutcome | Again> {
    const waits = (request.queueMs ?? 0) > 0;
    const { ahead } = position;
    if (waits && !(await this.queue.wait(talk, id, position, undefined))) return AGAIN;
    const holder = await talk.waiterOf(request, position.waiters[0] ?? "");
    return { status: "held", holder, grantId: null, remainingMs, ahead };
  }

  async #held(
    talk: Talk,
    id: string,
    request: AcquireRequest,
    { record, data, stat, path }: Contender,
    position: QueuePosition,
  ): Promise<AcquireOutcome | Again> {
    const waits = (request.queueMs ?? 0) > 0;
    const { ahead } = position;
    const first = path.slice(path.lastIndexOf("/") + 1);
    if (waits && !(await this.queue.wait(talk, id, position, first))) return AGAIN;
    const waiting = waits ? { ahead } : {};
    if (!record) {
      const holder = foreignHolder(data, path);
      return { status: "held", holder, grantId: null, remainingMs: null, ...waiting };
    }
    const { holder, grantId, ttlMs, revoked } = record;
    const leftMs = (revoked?.freeAtMs ?? timeOf(stat) + ttlMs) - (await talk.sync());
    // A notification wakes the waiter when it reaches the head of the queue: after the current grant
    // and the reservations of the waiters before it.
    const reservedMs = waits ? reservedForMs(ahead) : 0;
    // Its TTL has passed; how long its session still lasts is unknown.
    const remainingMs = leftMs > 0 ? Math.min(leftMs, ttlMs) + reservedMs : null;
    return { status: "held", holder, grantId, remainingMs, ...waiting };
  }
}
