/** A tenant's elections with their leaders, and earlier terms from the history. */

import type { Clock, LeaseView } from "leasehold";
import type { GrantHistory } from "leasehold/internal";
import {
  type Leadership,
  Recent,
  type ShardLeadership,
  type TermRecord,
  termsOf,
} from "leasehold/internal";
import type { Elections } from "leasehold/internal/wire";
import type { TenantStatistics } from "./statistics.js";

const MAX_TERMS = 20;
/** More than people read, in a response of a few hundred kilobytes. */
const MAX_ELECTIONS = 1_000;
/** Further elections get only their last term: earlier terms cost one read of the history each. */
const MAX_WITH_TERMS = 50;
/** The history is about a second behind. Once written, only a new term changes an election's history. */
const FRESH_MS = 5_000;
const MAX_KEPT = 1_000;

interface Known {
  readonly token: number;
  readonly atMs: number;
  readonly before: Promise<readonly LeaseView[]>;
}

export class Terms {
  readonly #clock: Clock;
  readonly #history: Pick<GrantHistory, "list"> | undefined;
  readonly #known = new Recent<Known>(MAX_KEPT);

  constructor(clock: Clock, history: Pick<GrantHistory, "list"> | undefined) {
    this.#clock = clock;
    this.#history = history;
  }

  /** The terms up to this one, newest first. Rejects if the history is unavailable. */
  async of(view: LeaseView): Promise<TermRecord[]> {
    return termsOf([view, ...(await this.#before(view))]);
  }

  #before({ namespace, resource, token, grantId }: LeaseView): Promise<readonly LeaseView[]> {
    const history = this.#history;
    if (!history) return Promise.resolve([]);
    const key = JSON.stringify([namespace, resource]);
    const nowMs = this.#clock.monotonic();
    const known = this.#known.get(key);
    if (known?.token === token && nowMs - known.atMs < FRESH_MS) return known.before;
    const before = history
      .list({ namespace, resource, limit: MAX_TERMS - 1 })
      .then(({ items }) => items.filter((ended) => ended.grantId !== grantId));
    this.#known.set(key, { token, atMs: nowMs, before });
    before.catch(() => this.#known.delete(key));
    return before;
  }
}

export async function electionsOf(
  statistics: TenantStatistics,
  terms: Terms,
): Promise<Pick<Elections, "items" | "shards" | "complete">> {
  const items = statistics.elections
    .slice(0, MAX_ELECTIONS)
    .map(async (leadership, index) =>
      toElection(
        leadership,
        index < MAX_WITH_TERMS ? await terms.of(leadership.view) : termsOf([leadership.view]),
      ),
    );
  return {
    items: await Promise.all(items),
    shards: statistics.shards.map(toShards),
    complete: statistics.complete && statistics.elections.length <= MAX_ELECTIONS,
  };
}

function toElection(
  { kind, view }: Leadership,
  terms: readonly TermRecord[],
): Elections["items"][number] {
  const { resource: name, token, grantId, state, ttlMs, remainingMs } = view;
  return {
    name,
    kind,
    leader: leaderOf(view),
    token,
    grantId,
    since: view.grantedAt,
    endedAt: endedAt(view),
    state,
    ttlMs,
    remainingMs,
    terms: terms.map(({ view: term, vacantMs }) => ({
      holder: term.holder,
      token: term.token,
      grantId: term.grantId,
      since: term.grantedAt,
      endedAt: endedAt(term),
      state: term.state,
      vacantMs,
    })),
  };
}

function toShards({ name, coordinator, members, shards }: ShardLeadership) {
  return {
    name,
    coordinator: coordinator && leaderOf(coordinator),
    members: members.map(({ member, view: { holder, remainingMs } }) => ({
      member,
      holder,
      remainingMs,
    })),
    shards: shards.map(({ shard, view }) => ({
      shard,
      holder: leaderOf(view),
      token: view.token,
      since: view.grantedAt,
      remainingMs: view.remainingMs,
    })),
  };
}

function leaderOf({ state, holder }: LeaseView): string | null {
  return state === "live" ? holder : null;
}

/**
 * When the grant ceased to exclude others: the store sets the expiry of an ended grant to that time. Null: it still
 * excludes them. One that was revoked at its expiry does so until then; when it was revoked, the store does not keep.
 */
export function endedAt({ state, expiresAt, freeInMs }: LeaseView): string | null {
  return state === "live" || freeInMs !== undefined ? null : expiresAt;
}
