/**
 * Decides what becomes of a request, by the rules of lease/rules.ts and lease/queue.ts, on what was read of its lock. A lock's
 * znode records its last grant. The grant itself is an ephemeral znode below it, which Curator clients see as a contender.
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
import type { Clock } from "../../env/index.js";
import {
  type AcquireOutcome,
  type AcquireRequest,
  acquireAt,
  type Grant,
  InvalidOptionError,
  type Key,
  type LeaseRecord,
  type ReleaseOutcome,
  type RenewOutcome,
  type RenewRequest,
  type RevokeOutcome,
  type RevokeRequest,
  rules,
} from "../../lease/index.js";
import { exact } from "./connection-driver.js";
import { isRefused, Refused } from "./failures.js";
import { contenderOf, contenderPrefix, inOrder } from "./keys.js";
import {
  adopt,
  newGrant,
  type OwnGrant,
  type OwnGrants,
  ownRecord,
  recordFor,
  trusted,
} from "./own-grants.js";
import { encode } from "./records.js";
import {
  type Call,
  type Contender,
  endingOf,
  grantOf,
  type LockState,
  lastGrantOf,
  ownOf,
  type Seen,
  timeOf,
  written,
} from "./transactions.js";
import { type QueuePosition, readPosition, UNREAD, type WaitQueue } from "./wait-queue.js";

/** The state has changed: read again. */
export const AGAIN = null;
export type Again = typeof AGAIN;

/** The server chooses the token: it is the zxid of the grant. */
const SOME_TOKEN = (last: number) => last + 1;

export class Deciding {
  constructor(
    readonly clock: Clock,
    readonly own: OwnGrants,
    readonly queue: WaitQueue,
  ) {}

  async acquire(call: Call, request: AcquireRequest): Promise<AcquireOutcome | Again> {
    const { talk, id, doubt } = call;
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
        return this.#grant(call, request, glance, position);
      }
      doubt.careful = true;
    }
    // The server processes these in order, so no waiter from before the release is missed.
    const [seen, known] = await Promise.all([
      talk.latest(request),
      queueMs > 0 ? readPosition(talk, request) : null,
    ]);
    const [first] = seen.contenders;
    const mine = ownOf(seen, leaseId);
    const { nowMs } = seen;
    // A request that does not wait, for a held lock, skips the wait queue.
    const concerned = first === undefined || mine !== undefined;
    const position = known ?? (concerned ? await readPosition(talk, request) : UNREAD);
    if (mine !== first && mine !== undefined) {
      doubt.unknown = false;
      await this.#withdraw(call, request, mine, seen.stat?.version ?? -1);
      return AGAIN;
    }
    // The lock names the last grant of this lease id, whatever came after it.
    const ended = mine === undefined && seen.record?.contender === uuid;
    const contender =
      first === undefined || ended ? undefined : await talk.contender(request, first);
    if (contender === null) return AGAIN;
    if (mine !== undefined && contender?.owner === talk.link.owner) {
      doubt.unknown = false;
      const grant = adopt(this.own, call, request, contender, seen);
      const { outcome } = rules.acquire(
        ownRecord(grant, contender, sentMs),
        request,
        0,
        SOME_TOKEN,
      );
      if (outcome.status !== "acquired") return outcome;
      await written(doubt, this.queue.onGranted(talk, id, request, position));
      return trusted(outcome, talk, sentMs, talk.syncedMs);
    }
    if (mine === undefined) {
      doubt.unknown = false;
      this.own.forget(id);
    }
    const { outcome } = acquireAt(
      { ahead: position.ahead, holder: "" },
      contender
        ? grantOf(contender, nowMs)
        : lastGrantOf(seen, leaseId, nowMs - this.queue.freeForMs(talk, request, seen, nowMs)),
      request,
      nowMs,
      SOME_TOKEN,
      false,
    );
    if (outcome.status === "acquired") return this.#grant(call, request, seen, position);
    if (outcome.status === "ended") return outcome;
    if (queueMs > 0) {
      if (position.ownIndex < 0) {
        await this.queue.add(call, request);
        // From here on the watch reports every change.
        return AGAIN;
      }
      this.queue.track(id, request);
      if (!(await this.queue.wait(talk, id, position, first))) return AGAIN;
    }
    const { remainingMs } = outcome;
    const isKnown = remainingMs !== null && Number.isFinite(remainingMs);
    return {
      ...outcome,
      holder: contender?.holder ?? (await talk.waiterOf(request, position.waiters[0] ?? "")),
      grantId: contender?.record?.grantId ?? null,
      remainingMs: isKnown ? Math.ceil(remainingMs) : null,
    };
  }

  async #grant(
    call: Call,
    request: AcquireRequest,
    { stat: before, data: previous }: Seen,
    position: QueuePosition,
  ): Promise<AcquireOutcome | Again> {
    const { talk, id, doubt } = call;
    const { namespace, holder, ttlMs } = request;
    const record = recordFor(request);
    const lock = talk.paths.lock(request);
    const data = encode(record);
    const sentMs = this.clock.monotonic();
    const grant = newGrant(id, request, record, sentMs, null);
    this.own.put(grant);
    doubt.careful = true;
    const made = await written(
      doubt,
      talk.commit([
        before ? { set: lock, data, version: before.version } : { create: lock, data },
        { create: `${lock}/${contenderPrefix(record.contender)}`, data, ephemeral: true },
      ]),
    );
    if (made instanceof Refused) {
      this.own.forget(id);
      if (isRefused(made, "NO_NODE") && !before) await talk.make(talk.paths.namespace(namespace));
      return AGAIN;
    }
    doubt.unknown = true;
    const path = made[1]?.path ?? "";
    const name = path.slice(lock.length + 1);
    const lockVersion = before ? before.version + 1 : 0;
    const { children, stat } = await talk.link.getChildren(lock, talk.deadlineMs);
    doubt.unknown = false;
    // An operator has ended it already.
    if (stat.version !== lockVersion || !children.includes(name)) return AGAIN;
    if (inOrder(children)[0] !== name) {
      await this.#withdraw(call, request, name, lockVersion, previous);
      return AGAIN;
    }
    grant.untilMs = this.clock.monotonic() + ttlMs;
    // One transaction wrote both.
    const [token, grantedAtMs] = [exact(stat.mzxid), timeOf(stat)];
    const { owner } = talk.link;
    const times = { grantedAtMs, renewedAtMs: null, dueMs: grantedAtMs + ttlMs };
    const contender = { path, version: 0, owner, token, holder, record, ...times };
    grant.node = { contender, lock: { stat, record } };
    await written(doubt, this.queue.onGranted(talk, id, request, position));
    const { outcome } = rules.acquire(null, request, 0, () => token);
    return outcome.status === "acquired" ? trusted(outcome, talk, sentMs) : outcome;
  }

  async renew(call: Call, request: RenewRequest): Promise<RenewOutcome | Again> {
    const { talk, id, doubt } = call;
    const grant = this.own.get(id);
    if (grant?.node?.contender.owner === talk.link.owner) {
      return this.#extend(call, request, grant, grant.node);
    }
    doubt.careful = true;
    const seen = await talk.latest(request);
    doubt.unknown = false;
    const [first] = seen.contenders;
    const mine = ownOf(seen, request.leaseId);
    const nowMs = this.clock.monotonic();
    if (mine === undefined) {
      this.own.forget(id);
      const isTaken = first !== undefined && !seen.record?.ended;
      const last = seen.record && lastGrantOf(seen, isTaken ? "" : request.leaseId, 0);
      // Its session has ended, or another client deleted its znode: the holder must learn of that before
      // the expiry.
      const isEarly = grant !== undefined && nowMs < grant.untilMs && !seen.record?.ended;
      return lost(last && isEarly ? { ...last, ended: "released" } : last, request);
    }
    if (mine !== first) {
      await this.#withdraw(call, request, mine, seen.stat?.version ?? -1);
      return lost(null, request);
    }
    const contender = await talk.contender(request, mine);
    if (!contender) return AGAIN;
    // The grant belongs to another client that knows this lease id; only that client keeps it alive.
    if (contender.owner !== talk.link.owner) return lost(null, request);
    const adopted = adopt(this.own, call, request, contender, seen);
    return lost(ownRecord(adopted, contender, nowMs), request);
  }

  async #extend(
    { talk, doubt }: Call,
    request: RenewRequest,
    grant: OwnGrant,
    { contender, lock }: NonNullable<OwnGrant["node"]>,
  ): Promise<RenewOutcome | Again> {
    const sentMs = this.clock.monotonic();
    const { outcome } = rules.renew(ownRecord(grant, contender, sentMs), request, 0);
    // What this client knows may be old, so that only a read answers that a grant is lost.
    if (outcome.status !== "renewed") {
      grant.node = null;
      return AGAIN;
    }
    const ttlMs = Math.ceil(outcome.remainingMs);
    const record = { ...grant.record, ttlMs };
    const { path, version } = contender;
    const setting = talk.link.setData(path, encode(record), version, talk.deadlineMs);
    const stat = await written(doubt, setting);
    if (stat instanceof Refused) {
      grant.node = null;
      return AGAIN;
    }
    const renewedAtMs = timeOf(stat);
    const times = { renewedAtMs, dueMs: renewedAtMs + ttlMs };
    grant.node = { contender: { ...contender, ...times, record, version: stat.version }, lock };
    grant.record = record;
    grant.untilMs = this.clock.monotonic() + ttlMs;
    return trusted(outcome, talk, sentMs);
  }

  /**
   * Ends a grant of this client.
   * @param state how it ended, for readers of the history
   */
  async end(
    call: Call,
    grant: Grant,
    state: "released" | "expired",
  ): Promise<ReleaseOutcome | Again> {
    const { talk, id, doubt } = call;
    const nowMs = this.clock.monotonic();
    const release = (record: LeaseRecord | null) => rules.release(record, grant, 0).outcome;
    const known = this.own.get(id);
    const node = known?.node;
    const isOwn = node?.contender.owner === talk.link.owner;
    // An operator may have revoked an expired grant meanwhile, so this reads first.
    if (state === "released" && known && node && isOwn && !doubt.unknown) {
      const { contender, lock } = node;
      known.node = null;
      if (await this.#commitEnd(call, grant, contender, lock, state)) {
        return release(ownRecord(known, contender, nowMs));
      }
    }
    doubt.careful = true;
    const [seen, position] = await Promise.all([talk.latest(grant), readPosition(talk, grant)]);
    const mine = ownOf(seen, grant.leaseId);
    if (mine === undefined) {
      // A failed acquire made no grant; only its waiter is removed.
      await this.queue.withdraw(talk, id, grant, position);
      doubt.unknown = false;
      this.own.forget(id);
      return release(lastGrantOf(seen, grant.leaseId, 0));
    }
    doubt.unknown = false;
    const contender = await talk.contender(grant, mine);
    if (!contender) return AGAIN;
    if (contender.owner !== talk.link.owner) return release(null);
    const one = adopt(this.own, call, grant, contender, seen);
    const outcome = release(ownRecord(one, contender, nowMs));
    return (await this.#commitEnd(call, grant, contender, seen, state)) ? outcome : AGAIN;
  }

  /** Returns false if the state has changed meanwhile. */
  async #commitEnd(
    { talk, id, doubt }: Call,
    key: Key,
    contender: Contender,
    lock: LockState,
    state: "released" | "expired",
  ): Promise<boolean> {
    const ended = await written(doubt, talk.commit(endingOf(talk, key, contender, lock, state)));
    if (ended instanceof Refused) return false;
    this.own.forget(id);
    return true;
  }

  /**
   * Deletes a contender of this client that is not first. It was never a grant, so the lock's znode gets
   * its previous contents.
   * @param version of the lock's znode, which names the contender
   * @param before the previous contents
   */
  async #withdraw(
    { talk, id, doubt }: Call,
    key: Key,
    mine: string,
    version: number,
    before: Buffer = Buffer.alloc(0),
  ): Promise<void> {
    const lock = talk.paths.lock(key);
    // If it is refused, the contender is gone, or the next read finds it.
    await written(
      doubt,
      talk.commit([{ remove: `${lock}/${mine}` }, { set: lock, data: before, version }]),
    );
    this.own.forget(id);
  }
}

/**
 * Revokes a grant for an operator. Not repeated after a lost response, because that could end the next
 * grant.
 */
export async function revoke(
  { talk, doubt }: Call,
  request: RevokeRequest,
): Promise<RevokeOutcome | Again> {
  const seen = await talk.latest(request);
  const { nowMs } = seen;
  const [first] = seen.contenders;
  const contender = first === undefined ? undefined : await talk.contender(request, first);
  if (contender === null) return AGAIN;
  const record = contender ? grantOf(contender, nowMs) : null;
  const { outcome } = rules.revoke(record, request, nowMs);
  if (!contender || outcome.status !== "revoked") return outcome;
  // The holder's client frees it, or the end of its session does, which may be later.
  const freeInMs = Number.isFinite(outcome.freeInMs) ? Math.ceil(outcome.freeInMs) : 1;
  let writing: Promise<unknown>;
  if (request.free === "now") {
    writing = talk.commit(endingOf(talk, request, contender, seen, "revoked"));
  } else {
    const { record, path, version, dueMs: freeAtMs, renewedAtMs } = contender;
    if (!record) {
      throw new InvalidOptionError(
        "free",
        `must be "now": ${contender.holder} is not a Leasehold client, and would not notice`,
      );
    }
    if (record.revoked) return { ...outcome, freeInMs };
    const marked = { ...record, revoked: { freeAtMs, renewedAtMs } };
    writing = talk.link.setData(path, encode(marked), version, talk.deadlineMs);
  }
  if ((await written(doubt, writing)) instanceof Refused) return AGAIN;
  return { ...outcome, freeInMs };
}

/** Why a grant is lost, or that it can be renewed now. */
function lost(record: LeaseRecord | null, request: RenewRequest): RenewOutcome | Again {
  const { outcome } = rules.renew(record, request, 0);
  return outcome.status === "lost" ? outcome : AGAIN;
}
