/**
 * Two mistakes in the options of members, which no lease prevents and no member notices by itself:
 * another `count` than the rest of the group has, and one `member` name for two clients.
 */
import { sleep } from "../env/index.js";
import type { LeaseClient, LeaseView } from "../lease/index.js";

/** How many members of a count a warning names. */
const MOST_NAMED = 5;

/** What a member says about itself in the metadata of its lease. */
export function describeMember(member: string, count: number): Record<string, string> {
  return { member, count: String(count) };
}

interface MembersOfCount {
  readonly count: number;
  readonly members: string[];
  readonly holders: string[];
}

/** Warns when live members have another count than this one: once per change of who has which. */
export class Counts {
  readonly #leases: LeaseClient;
  readonly #name: string;
  readonly #count: number;
  #last = "";

  constructor(leases: LeaseClient, name: string, count: number) {
    this.#leases = leases;
    this.#name = name;
    this.#count = count;
  }

  /** @param members the leases of all live members */
  compare(members: readonly LeaseView[]): void {
    const others = this.#others(members);
    const news = JSON.stringify(others);
    if (news === this.#last) return;
    this.#last = news;
    if (others.length === 0) return;
    const { holder, env } = this.#leases;
    env.logger.warn(
      { name: this.#name, count: this.#count, holder, others },
      "other members have another count: some shards are worked on by no member",
    );
  }

  #others(members: readonly LeaseView[]): MembersOfCount[] {
    const others = new Map<number, MembersOfCount>();
    for (const { metadata, holder } of members) {
      const { member = "", count } = readMember(metadata);
      // A member of an older version does not say its count.
      if (count === undefined || Number(count) === this.#count) continue;
      const own = others.get(Number(count)) ?? { count: Number(count), members: [], holders: [] };
      others.set(own.count, own);
      if (own.members.length === MOST_NAMED) continue;
      own.members.push(member);
      own.holders.push(holder);
    }
    return [...others.values()];
  }
}

function readMember(metadata: string | null): { member?: string; count?: string } {
  try {
    return JSON.parse(metadata ?? "{}") as { member?: string; count?: string };
  } catch {
    return {};
  }
}

/**
 * Warns, once for each, when another client holds the lease of this member and renews it, until the
 * signal aborts. A lease that is not renewed is that of a dead predecessor.
 */
export async function reportTwin(
  leases: LeaseClient,
  { name, member, resource }: { name: string; member: string; resource: string },
  isJoined: () => boolean,
  pauseMs: () => number,
  signal: AbortSignal,
): Promise<void> {
  const { clock, logger } = leases.env;
  let seen: string | undefined;
  let reported: string | undefined;
  let untilMs = pauseMs();
  for (;;) {
    await sleep(clock, untilMs, { signal }).catch(() => {});
    if (signal.aborted) return;
    untilMs = pauseMs();
    // A store that does not answer is reported by what waits for it.
    const view = isJoined() ? null : await leases.get(resource).catch(() => null);
    if (signal.aborted) return;
    if (view?.state !== "live" || isJoined()) {
      seen = undefined;
      continue;
    }
    const { grantId, holder } = view;
    if (grantId === seen && grantId !== reported) {
      reported = grantId;
      logger.warn(
        { name, member, holder },
        "another client has the name of this member: it gets no shards",
      );
    }
    seen = grantId;
    // It lives if it still has the lease then.
    untilMs += view.remainingMs;
  }
}
