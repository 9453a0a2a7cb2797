/**
 * How this client takes, keeps and gives back leases. A lock's znode names its last grant; the grant
 * itself is an ephemeral znode below it, which every client of Curator's layout takes for a contender.
 *
 *   acquire   look ─▶ nobody contends ─▶ one transaction: write the lock's znode if its version is
 *                     │                  still the one seen, and create our contender
 *                     │                    ├── refused: somebody was quicker; look again
 *                     │                    └── done ─▶ are we first? ─▶ acquired; token: its czxid
 *                     │                                  └── another kind of client was quicker:
 *                     ▼                                      take ours away again, look again
 *                  catch up, look again ─▶ ours: the answer to a repeated request
 *                                          another's: held
 *   renew     write our contender if its version is still the one known: an operator's mark shows
 *   release   one transaction: delete our contender, and write into the lock's znode how it ended
 *
 * Failures. An answer that is lost leaves a doubt, which the next look after a catch-up settles: our
 * contender is found by its UUID, or was not made and never will be, because servers refuse what comes
 * from a connection that the session has left. Whoever gives up in doubt leaves a note (own-grants.ts),
 * and the contender is deleted at the end of its ttl, or goes with the session.
 */
import { type Clock, grantIdOf } from "../../env/index.js";
import type {
  AcquireOutcome,
  AcquireRequest,
  Key,
  ReleaseOutcome,
  RenewOutcome,
  RenewRequest,
} from "../../lease/index.js";
import { isRefused } from "./failures.js";
import {
  type Change,
  type Contender,
  renewedAtOf,
  type Seen,
  type Talk,
  timeOf,
  trace,
} from "./locks.js";
import type { OwnGrant, OwnGrants, OwnNode } from "./own-grants.js";
import { contenderOf, contenderPrefix, inOrder } from "./paths.js";
import { type ContenderRecord, type Ended, encode } from "./records.js";
import type { Watches } from "./watches.js";

/** Whether a request may have taken effect although nobody can say. */
export interface Doubt {
  unknown: boolean;
  /** An answer was lost, or not taken for settled: look with care. */
  careful: boolean;
}
/** Something has changed meanwhile: look again. */
export const AGAIN = null;
type Again = typeof AGAIN;

export class Holding {
  constructor(
    readonly clock: Clock,
    readonly own: OwnGrants,
    readonly watches: Watches,
  ) {}

  async acquire(
    talk: Talk,
    id: string,
    request: AcquireRequest,
    doubt: Doubt,
  ): Promise<AcquireOutcome | Again> {
    const sentMs = this.clock.monotonic();
    const seen = await this.#look(talk, request, doubt);
    const [first] = seen.contenders;
    const mine = ownOf(seen, request.leaseId);
    const named = seen.record?.contender === contenderOf(request.leaseId);
    if (first === undefined && !named) {
      if (doubt.careful) doubt.unknown = false;
      return this.#grant(talk, id, request, seen, doubt);
    }
    if (!doubt.careful) {
      // That it is free is tried out; whatever else is said must be no older than the question.
      doubt.careful = true;
      return AGAIN;
    }
    if (mine === undefined) {
      doubt.unknown = false;
      this.own.forget(id);
      if (named) return { status: "ended" };
    }
    const contender = await talk.contender(request, first ?? "");
    if (!contender) return AGAIN;
    if (mine !== undefined && mine !== first) {
      await this.#withdraw(talk, id, request, mine, seen.stat?.version ?? -1);
      doubt.unknown = false;
      return AGAIN;
    }
    if (mine !== undefined && contender.owner === talk.link.owner) {
      doubt.unknown = false;
      if (contender.record?.revoked) return { status: "ended" };
      const grant = this.#adopt(id, request, contender, seen);
      return acquired(grant, talk, { sentMs, provenMs: talk.syncedMs, promisedMs: grant.untilMs });
    }
    return this.#held(talk, request, contender, first ?? "");
  }

  async renew(
    talk: Talk,
    id: string,
    request: RenewRequest,
    doubt: Doubt,
  ): Promise<RenewOutcome | Again> {
    const sentMs = this.clock.monotonic();
    const grant = this.own.get(id);
    if (grant?.node && grant.node.owner === talk.link.owner) {
      const { node } = grant;
      // Never shorter than promised before.
      const lengthMs = Math.max(request.ttlMs, Math.ceil(grant.untilMs - sentMs));
      const data = encode({ ...grant.record, ttlMs: lengthMs });
      try {
        doubt.unknown = true;
        const stat = await talk.link.setData(node.path, data, node.version, talk.deadlineMs);
        grant.node = { ...node, version: stat.version, renewedAtMs: timeOf(stat) };
        const promisedMs = Math.max(sentMs + request.ttlMs, grant.untilMs);
        grant.untilMs = this.clock.monotonic() + lengthMs;
        const { token } = node;
        const times = { sentMs, provenMs: sentMs, promisedMs };
        return { status: "renewed", token, ...termOf(request.ttlMs, talk, times) };
      } catch (error) {
        if (!isRefused(error, "NO_NODE", "BAD_VERSION")) throw error;
        grant.node = null;
      }
    }
    doubt.careful = true;
    const seen = await this.#look(talk, request, doubt);
    doubt.unknown = false;
    const mine = ownOf(seen, request.leaseId);
    if (mine === undefined) {
      this.own.forget(id);
      return { status: "lost", reason: this.#whyLost(seen, request.leaseId, grant) };
    }
    const contender = await talk.contender(request, mine);
    if (!contender) return AGAIN;
    // Another client's, who may have been given our lease id: it is not ours to keep alive.
    if (contender.owner !== talk.link.owner) return { status: "lost", reason: "gone" };
    if (contender.record?.revoked) return { status: "lost", reason: "revoked" };
    if (mine !== seen.contenders[0]) {
      await this.#withdraw(talk, id, request, mine, seen.stat?.version ?? -1);
      return { status: "lost", reason: "gone" };
    }
    this.#adopt(id, request, contender, seen);
    return AGAIN;
  }

  /**
   * Ends a grant of this client.
   * @param state how, for those who look at it later
   */
  async end(
    talk: Talk,
    id: string,
    grant: Key & { readonly leaseId: string },
    state: "released" | "expired",
    doubt: Doubt,
  ): Promise<ReleaseOutcome | Again> {
    const known = this.own.get(id);
    // One whose time is over may have been revoked meanwhile, which is read first.
    if (state === "released" && known?.node?.owner === talk.link.owner && !doubt.unknown) {
      const { path, lockVersion, ...times } = known.node;
      const ended = { state, ...endOf(times) };
      const lock = talk.paths.lock(grant);
      known.node = null;
      if (
        await this.#commit(
          talk,
          [{ remove: path }, trace(lock, lockVersion, known.record, ended)],
          doubt,
        )
      ) {
        this.own.forget(id);
        return { status: "released" };
      }
    }
    doubt.careful = true;
    const seen = await this.#look(talk, grant, doubt);
    doubt.unknown = false;
    const mine = ownOf(seen, grant.leaseId);
    if (mine === undefined) {
      this.own.forget(id);
      const { record } = seen;
      const released =
        record?.contender === contenderOf(grant.leaseId) && record.ended?.state === "released";
      return { status: released ? "released" : "notHeld" };
    }
    const contender = await talk.contender(grant, mine);
    if (!contender) return AGAIN;
    if (contender.owner !== talk.link.owner) return { status: "notHeld" };
    if (!(await this.#commit(talk, endingOf(talk, grant, contender, seen, state), doubt)))
      return AGAIN;
    this.own.forget(id);
    return { status: "released" };
  }

  async #grant(
    talk: Talk,
    id: string,
    request: AcquireRequest,
    seen: Seen,
    doubt: Doubt,
  ): Promise<AcquireOutcome | Again> {
    const { leaseId, holder, ttlMs, metadata = null } = request;
    const record: ContenderRecord = {
      ...{ contender: contenderOf(leaseId), grantId: grantIdOf(leaseId) },
      ...{ holder, ttlMs, metadata },
    };
    const lock = talk.paths.lock(request);
    const data = encode(record);
    const sentMs = this.clock.monotonic();
    const { namespace, resource } = request;
    const grant: OwnGrant = {
      ...{ id, grant: { namespace, resource, leaseId }, record, ttlMs },
      ...{ untilMs: sentMs + ttlMs, node: null },
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
      if (isRefused(error, "NO_NODE")) await talk.make(talk.paths.namespace(namespace));
      return AGAIN;
    }
    const name = path.slice(lock.length + 1);
    const lockVersion = seen.stat ? seen.stat.version + 1 : 0;
    const [contender, { children }] = await Promise.all([
      talk.contender(request, name),
      talk.link.getChildren(lock, talk.deadlineMs),
    ]);
    doubt.unknown = false;
    if (!contender) return AGAIN;
    if (inOrder(children)[0] !== name) {
      doubt.unknown = true;
      await this.#withdraw(talk, id, request, name, lockVersion, seen.data);
      doubt.unknown = false;
      return AGAIN;
    }
    grant.untilMs = this.clock.monotonic() + ttlMs;
    grant.node = nodeOf(contender, lockVersion);
    return acquired(grant, talk, { sentMs, provenMs: sentMs, promisedMs: sentMs + ttlMs });
  }

  /**
   * Ours is not the first: it was never a grant, nor is it the last grant of the lock.
   * @param version of the lock's znode, which names it
   * @param before what stood there
   */
  async #withdraw(
    talk: Talk,
    id: string,
    key: Key,
    mine: string,
    version: number,
    before: Buffer = Buffer.alloc(0),
  ): Promise<void> {
    const lock = talk.paths.lock(key);
    const changes: Change[] = [{ remove: `${lock}/${mine}` }, { set: lock, data: before, version }];
    try {
      await talk.commit(changes);
    } catch (error) {
      // It is gone, or looked at again.
      if (!isRefused(error, "NO_NODE", "BAD_VERSION")) throw error;
    }
    this.own.forget(id);
  }

  #adopt(id: string, request: RenewRequest, contender: Contender, seen: Seen): OwnGrant {
    const { record } = contender;
    const node = nodeOf(contender, seen.stat?.version ?? -1);
    const known = this.own.get(id);
    if (known) {
      known.node = node;
      return known;
    }
    const { namespace, resource, leaseId } = request;
    const ttlMs = record?.ttlMs ?? request.ttlMs;
    const grant: OwnGrant = {
      ...{ id, grant: { namespace, resource, leaseId }, ttlMs, node },
      record: record ?? {
        ...{ contender: contenderOf(leaseId), grantId: grantIdOf(leaseId) },
        ...{ holder: "", ttlMs, metadata: null },
      },
      untilMs: this.clock.monotonic() + ttlMs,
    };
    this.own.put(grant);
    return grant;
  }

  async #held(
    talk: Talk,
    request: AcquireRequest,
    { record, data, stat, path }: Contender,
    first: string,
  ): Promise<AcquireOutcome | Again> {
    if ((request.queueMs ?? 0) > 0 && !(await this.watches.watch(talk, request, first)))
      return AGAIN;
    if (!record) {
      return {
        status: "held",
        holder: foreignHolder(data, path),
        grantId: null,
        remainingMs: null,
      };
    }
    const { holder, grantId, ttlMs, revoked } = record;
    const leftMs = (revoked?.freeAtMs ?? timeOf(stat) + ttlMs) - (await talk.sync());
    // It should have ended: how long its session still takes to, nobody can say.
    const remainingMs = leftMs > 0 ? Math.min(leftMs, ttlMs) : null;
    return { status: "held", holder, grantId, remainingMs };
  }

  #whyLost(seen: Seen, leaseId: string, grant: OwnGrant | undefined) {
    const { record, contenders } = seen;
    if (!record) return "gone";
    if (record.contender !== contenderOf(leaseId)) return "taken";
    const state = record.ended?.state;
    if (state === "revoked") return "revoked";
    if (state === "released") return "gone";
    if (contenders.length > 0) return "taken";
    // Its session has ended, or somebody has deleted its znode: before its time, that is news.
    return grant && grant.untilMs > this.clock.monotonic() ? "gone" : "expired";
  }

  async #look(talk: Talk, key: Key, doubt: Doubt): Promise<Seen> {
    if (!doubt.careful) return talk.look(key);
    // Answered in this order.
    const [, seen] = await Promise.all([talk.sync(), talk.look(key)]);
    return seen;
  }

  /** @returns whether it was done; if not, something has changed meanwhile */
  async #commit(talk: Talk, changes: readonly Change[], doubt: Doubt): Promise<boolean> {
    doubt.unknown = true;
    try {
      await talk.commit(changes);
    } catch (error) {
      if (!isRefused(error, "NO_NODE", "BAD_VERSION")) throw error;
      doubt.unknown = false;
      return false;
    }
    doubt.unknown = false;
    return true;
  }
}

/** The changes that end a grant whose contender is this one. */
export function endingOf(
  talk: Talk,
  key: Key,
  contender: Contender,
  { stat, record: last }: Seen,
  state: Ended["state"],
): Change[] {
  const { path, record, token } = contender;
  const changes: Change[] = [{ remove: path }];
  if (record && last?.contender === record.contender && stat) {
    const grantedAtMs = timeOf({ ...contender.stat, mtime: contender.stat.ctime });
    const revoked = state === "expired" && record.revoked !== undefined;
    const ended = {
      state: revoked ? "revoked" : state,
      ...{ token, grantedAtMs, renewedAtMs: renewedAtOf(contender) },
    } as const;
    changes.push(trace(talk.paths.lock(key), stat.version, record, ended));
  }
  return changes;
}

/** What a client of another kind says of itself. */
export function foreignHolder(data: Buffer | undefined, path: string): string {
  const text = data?.toString() ?? "";
  // oxlint-disable-next-line no-control-regex -- what nobody would want to read
  const shown = /^[^\u0000-\u001f\u007f\ufffd]{1,256}$/.test(text) ? text : "";
  return shown || path.slice(path.lastIndexOf("/") + 1);
}

function ownOf({ contenders }: Seen, leaseId: string): string | undefined {
  const prefix = contenderPrefix(contenderOf(leaseId));
  return contenders.find((name) => name.startsWith(prefix));
}

function nodeOf(contender: Contender, lockVersion: number): OwnNode {
  const { path, owner, token, stat } = contender;
  const grantedAtMs = timeOf({ ...stat, mtime: stat.ctime });
  const renewedAtMs = renewedAtOf(contender);
  return { path, owner, token, version: stat.version, lockVersion, grantedAtMs, renewedAtMs };
}

function endOf({ token, grantedAtMs, renewedAtMs }: Omit<Ended, "state">): Omit<Ended, "state"> {
  return { token, grantedAtMs, renewedAtMs };
}

/** By this process's monotonic clock. */
interface Times {
  /** From when on the answer counts. */
  readonly sentMs: number;
  /** When a write was sent that has been answered. */
  readonly provenMs: number;
  /** Until when this client leaves the grant alone. */
  readonly promisedMs: number;
}

function acquired(grant: OwnGrant, talk: Talk, times: Times): AcquireOutcome {
  const { node, ttlMs } = grant;
  return { status: "acquired", token: node?.token ?? 0, ...termOf(ttlMs, talk, times) };
}

/** Not longer than the session is known to last. Whole, towards the side of stopping too early. */
function termOf(ttlMs: number, talk: Talk, { sentMs, provenMs, promisedMs }: Times) {
  const leftMs = Math.min(promisedMs, talk.link.lastsUntilMs(provenMs)) - sentMs;
  return { ttlMs, remainingMs: Math.max(0, Math.floor(leftMs)), expiresAt: null };
}
