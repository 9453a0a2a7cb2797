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
import type { AcquireOutcome, AcquireRequest } from "../../lease/index.js";
import {
  AGAIN,
  type Again,
  acquired,
  adopt,
  type Doubt,
  foreignHolder,
  lookWithCare,
  ownOf,
  withdraw,
} from "./contenders.js";
import { exact } from "./driver.js";
import { isRefused } from "./failures.js";
import { type Contender, type Seen, type Talk, timeOf } from "./locks.js";
import type { OwnGrant, OwnGrants } from "./own-grants.js";
import { contenderOf, contenderPrefix, inOrder } from "./paths.js";
import { type ContenderRecord, encode } from "./records.js";
import type { Watches } from "./watches.js";

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
    const uuid = contenderOf(request.leaseId);
    if (!doubt.careful) {
      // That it is free is tried out; whatever else is said must be no older than the question.
      const glance = await talk.glance(request);
      if (glance && glance.record?.contender !== uuid) {
        return this.#grant(talk, id, request, glance, doubt);
      }
      doubt.careful = true;
    }
    const seen = await lookWithCare(talk, request);
    const [first] = seen.contenders;
    const mine = ownOf(seen, request.leaseId);
    const named = seen.record?.contender === uuid;
    if (first === undefined && !named) {
      doubt.unknown = false;
      return this.#grant(talk, id, request, seen, doubt);
    }
    if (mine === undefined) {
      doubt.unknown = false;
      this.own.forget(id);
      if (named) return { status: "ended" };
    }
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
      return acquired(grant, talk, { sentMs, provenMs: talk.syncedMs, promisedMs: grant.untilMs });
    }
    return this.#held(talk, request, contender, first ?? "");
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
    const { children, stat } = await talk.link.getChildren(lock, talk.deadlineMs);
    doubt.unknown = false;
    // Ended by an operator already.
    if (stat.version !== lockVersion || !children.includes(name)) return AGAIN;
    if (inOrder(children)[0] !== name) {
      doubt.unknown = true;
      await withdraw(this.own, talk, id, request, name, lockVersion, seen.data);
      doubt.unknown = false;
      return AGAIN;
    }
    grant.untilMs = this.clock.monotonic() + ttlMs;
    grant.node = {
      ...{ path, owner: talk.link.owner, version: 0, lockVersion },
      // One transaction has written both.
      ...{ token: exact(stat.mzxid), grantedAtMs: timeOf(stat), renewedAtMs: null },
    };
    return acquired(grant, talk, { sentMs, provenMs: sentMs, promisedMs: sentMs + ttlMs });
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
}
