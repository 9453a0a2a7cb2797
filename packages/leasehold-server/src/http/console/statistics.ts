/**
 * Statistics of a tenant: counts of its leases, and its elections. Stores have no index for either, so
 * this reads all of the tenant's leases, up to a bound.
 */

import type { LeaseStore, LeaseView } from "leasehold";
import { type Leadership, leadershipOf, nextTurn, type ShardLeadership } from "leasehold/internal";
import { excludesOthers } from "./lease-filters.js";

const PAGE = 1_000;
const MAX_PAGES = 10;

export interface TenantStatistics {
  /** Resources with a live lease, or a revoked one that still excludes others. */
  readonly held: number;
  /** Free resources with a record of their last grant. */
  readonly ended: number;
  /** False: there are more leases than were read. */
  readonly complete: boolean;
  readonly elections: readonly Leadership[];
  readonly shards: readonly ShardLeadership[];
}

/** Rejects if the store is unavailable. */
export async function statisticsOf(
  leases: Pick<LeaseStore, "list">,
  namespace: string,
): Promise<TenantStatistics> {
  let [held, ended] = [0, 0];
  const marked: LeaseView[] = [];
  let cursor: string | null | undefined;
  for (let pages = 0; pages < MAX_PAGES && cursor !== null; pages += 1) {
    const from = cursor === undefined ? {} : { cursor };
    const page = await leases.list({ namespace, limit: PAGE, ...from });
    const excluding = page.items.filter(excludesOthers).length;
    held += excluding;
    ended += page.items.length - excluding;
    marked.push(...page.items.filter(({ metadata }) => metadata !== null));
    cursor = page.nextCursor;
    // A store in this process never yields by itself; let other requests run between pages.
    await nextTurn();
  }
  return { held, ended, complete: cursor === null, ...leadershipOf(marked) };
}
