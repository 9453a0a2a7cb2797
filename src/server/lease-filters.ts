/**
 * Lists of leases by what stores have no index for: who holds them, how soon they end, how long they
 * have been held. Pages of the store are read until there are enough; of one request so many leases are
 * looked at, so that a page may have fewer than were asked for, or none, and yet a next one.
 */
import type { LeaseView, Page } from "../lease/index.js";

export interface LeaseFilter {
  readonly holder?: string | undefined;
  /** Live, and at its end by then unless it is renewed. */
  readonly expiringWithinMs?: number | undefined;
  /** Live, and granted at least this long ago, by the store's clock; not where it tells no times. */
  readonly heldForMs?: number | undefined;
}

/** Of one read, and of one request. */
const READ_AT_ONCE = 1_000;
const MOST_READS = 10;

/** @param read a page of the store, behind the resource that the cursor names */
export async function filteredPage(
  read: (limit: number, cursor: string | undefined) => Promise<Page<LeaseView>>,
  { limit, cursor }: { limit: number; cursor?: string | undefined },
  filter: LeaseFilter,
): Promise<Page<LeaseView>> {
  if (Object.values(filter).every((value) => value === undefined)) return read(limit, cursor);
  const items: LeaseView[] = [];
  let from = cursor;
  for (let reads = 0; reads < MOST_READS; reads += 1) {
    const page = await read(READ_AT_ONCE, from);
    items.push(...page.items.filter((view) => matches(view, filter)));
    if (items.length > limit) {
      const kept = items.slice(0, limit);
      return { items: kept, nextCursor: kept.at(-1)?.resource ?? null };
    }
    if (page.nextCursor === null) return { items, nextCursor: null };
    from = page.nextCursor;
  }
  return { items, nextCursor: from ?? null };
}

function matches(view: LeaseView, { holder, expiringWithinMs, heldForMs }: LeaseFilter): boolean {
  const { state, remainingMs } = view;
  if (holder !== undefined && view.holder !== holder) return false;
  if (expiringWithinMs !== undefined && (state !== "live" || remainingMs > expiringWithinMs)) {
    return false;
  }
  return heldForMs === undefined || (heldMs(view) ?? -1) >= heldForMs;
}

/** By the store's clock alone; null where that cannot be said. */
function heldMs({ state, grantedAt, expiresAt, remainingMs }: LeaseView): number | null {
  if (state !== "live" || grantedAt === null || expiresAt === null) return null;
  return Date.parse(expiresAt) - remainingMs - Date.parse(grantedAt);
}
