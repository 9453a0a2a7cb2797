/** Renews, releases and revokes leases; see decide-acquire.ts. */

import {
  type Grant,
  InvalidOptionError,
  type ReleaseOutcome,
  type RenewOutcome,
  type RenewRequest,
  type RevokeOutcome,
  type RevokeRequest,
} from "../../core/index.js";
import type { Clock } from "../../env/index.js";
import {
  AGAIN,
  type Again,
  adopt,
  commit,
  type Doubt,
  endingOf,
  endOf,
  foreignHolder,
  ownOf,
  readAfterSync,
  termOf,
  withdraw,
} from "./decide-contenders.js";
import { isRefused } from "./failures.js";
import { contenderOf } from "./keys.js";
import type { OwnGrant, OwnGrants } from "./own-grants.js";
import { type ContenderRecord, encode } from "./records.js";
import { renewedAtOf, type Seen, type Talk, timeOf, trace } from "./transactions.js";
import { readPosition, type WaitQueue } from "./wait-queue.js";

export class Keeping {
  constructor(
    readonly clock: Clock,
    readonly own: OwnGrants,
    readonly queue: WaitQueue,
  ) {}

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
      // Never shortens a grant.
      const lengthMs = Math.max(request.ttlMs, Math.ceil(grant.untilMs - sentMs));
      const record = { ...grant.record, ttlMs: lengthMs };
      const data = encode(record);
      try {
        doubt.unknown = true;
        const stat = await talk.link.setData(node.path, data, node.version, talk.deadlineMs);
        grant.node = { ...node, version: stat.version, renewedAtMs: timeOf(stat) };
        grant.record = record;
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
    const seen = await readAfterSync(talk, request);
    doubt.unknown = false;
    const mine = ownOf(seen, request.leaseId);
    if (mine === undefined) {
      this.own.forget(id);
      return { status: "lost", reason: this.#whyLost(seen, request.leaseId, grant) };
    }
    const contender = await talk.contender(request, mine);
    if (!contender) return AGAIN;
    // The grant belongs to another client that knows this lease id; only that client keeps it alive.
    if (contender.owner !== talk.link.owner) return { status: "lost", reason: "gone" };
    if (contender.record?.revoked) return { status: "lost", reason: "revoked" };
    if (mine !== seen.contenders[0]) {
      await withdraw(this.own, talk, id, request, mine, seen.stat?.version ?? -1);
      return { status: "lost", reason: "gone" };
    }
    adopt(this.own, this.clock, id, request, contender, seen);
    return AGAIN;
  }

  /**
   * Ends a grant of this client.
   * @param state how it ended, for readers of the history
   */
  async end(
    talk: Talk,
    id: string,
    grant: Grant,
    state: "released" | "expired",
    doubt: Doubt,
  ): Promise<ReleaseOutcome | Again> {
    const known = this.own.get(id);
    // An operator may have revoked an expired grant meanwhile, so this reads first.
    if (state === "released" && known?.node?.owner === talk.link.owner && !doubt.unknown) {
      const { path, lockVersion, ...times } = known.node;
      const ended = { state, ...endOf(times) };
      const lock = talk.paths.lock(grant);
      known.node = null;
      if (
        await commit(talk, [{ remove: path }, trace(lock, lockVersion, known.record, ended)], doubt)
      ) {
        this.own.forget(id);
        return { status: "released" };
      }
    }
    doubt.careful = true;
    const [seen, position] = await Promise.all([
      readAfterSync(talk, grant),
      readPosition(talk, grant),
    ]);
    const mine = ownOf(seen, grant.leaseId);
    if (mine === undefined) {
      // A failed acquire made no grant; only its waiter is removed.
      await this.queue.withdraw(talk, id, grant, position);
      doubt.unknown = false;
      this.own.forget(id);
      const { record } = seen;
      const released =
        record?.contender === contenderOf(grant.leaseId) && record.ended?.state === "released";
      return { status: released ? "released" : "notHeld" };
    }
    doubt.unknown = false;
    const contender = await talk.contender(grant, mine);
    if (!contender) return AGAIN;
    if (contender.owner !== talk.link.owner) return { status: "notHeld" };
    if (!(await commit(talk, endingOf(talk, grant, contender, seen, state), doubt))) return AGAIN;
    this.own.forget(id);
    return { status: "released" };
  }

  #whyLost(seen: Seen, leaseId: string, grant: OwnGrant | undefined) {
    const { record, contenders } = seen;
    if (!record) return "gone";
    if (record.contender !== contenderOf(leaseId)) return "taken";
    const state = record.ended?.state;
    if (state === "revoked") return "revoked";
    if (state === "released") return "gone";
    if (contenders.length > 0) return "taken";
    // Its session has ended, or another client deleted its znode: the holder must learn of that before
    // the expiry.
    return grant && grant.untilMs > this.clock.monotonic() ? "gone" : "expired";
  }
}

/**
 * Revokes a grant for an operator. Not repeated after a lost response, because that could end the next
 * grant.
 */
export async function revoke(
  talk: Talk,
  request: RevokeRequest,
  doubt: Doubt,
): Promise<RevokeOutcome | Again> {
  const [nowMs, seen] = await Promise.all([talk.sync(), talk.read(request)]);
  const [first] = seen.contenders;
  if (first === undefined) return { status: "notHeld" };
  const contender = await talk.contender(request, first);
  if (!contender) return AGAIN;
  const { token, record, stat, path } = contender;
  const { expectedToken, free } = request;
  if (expectedToken !== undefined && expectedToken !== token) return { status: "otherToken" };
  try {
    if (free === "now") {
      doubt.unknown = true;
      await talk.commit(endingOf(talk, request, contender, seen, "revoked"));
      return { status: "revoked", token, freeInMs: 0 };
    }
    if (!record) {
      throw new InvalidOptionError(
        "free",
        `must be "now": ${foreignHolder(contender.data, path)} is not a Leasehold client, and would not notice`,
      );
    }
    if (record.revoked) return revoked(token, record, record.revoked.freeAtMs - nowMs);
    const freeAtMs = timeOf(stat) + record.ttlMs;
    const marked = { ...record, revoked: { freeAtMs, renewedAtMs: renewedAtOf(contender) } };
    doubt.unknown = true;
    const written = await talk.link.setData(path, encode(marked), stat.version, talk.deadlineMs);
    return revoked(token, record, freeAtMs - timeOf(written));
  } catch (error) {
    if (!isRefused(error, "NO_NODE", "BAD_VERSION")) throw error;
    doubt.unknown = false;
    return AGAIN;
  }
}

/** The holder's client frees it, or the end of its session does, which may be later. */
function revoked(token: number, { ttlMs }: ContenderRecord, leftMs: number): RevokeOutcome {
  return { status: "revoked", token, freeInMs: Math.min(ttlMs, Math.max(1, leftMs)) };
}
