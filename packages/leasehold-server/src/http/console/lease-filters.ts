/**
 * Lists of leases by filters that stores have no index for: holder, time to expiry, time held. SQL stores
 * apply the filters themselves. For other stores, pages are read until enough leases match. One request
 * reads a bounded number of leases, so a page may have fewer items than requested, or none, and still a
 * cursor for the next page.
 */
import type { LeaseView, Page } from "leasehold";
import { cursorAfter, type ListQuery, nextTurn } from "leasehold/internal";

type Filter = Pick<ListQuery, "holder" | "expiringWithinMs" | "heldForMs">;

/** Leases per read, and reads per request. */
const READ_AT_ONCE = 1_000;
const MAX_READS = 10;

/** Whether a page may cost more than its items, because the leases between them do not match. */
export function isFiltered(query: ListQuery): boolean {
  const { states, renewedOnly = false, holder, expiringWithinMs, heldForMs } = query;
  return renewedOnly || ![states, holder, expiringWithinMs, heldForMs].every(isAbsent);
}

function isAbsent(filter: unknown): boolean {
  return filter === undefined;
}

/** Whether the grant excludes others: it is live, or revoked and free only at its expiry. */
export function excludesOthers({ state, freeInMs }: LeaseView): boolean {
  return state === "live" || freeInMs !== undefined;
}

/**
 * @param read reads a page of the store, filtered or not
 * @param keeps a filter that no store applies
 */
export async function filteredPage(
  read: (query: ListQuery) => Promise<Page<LeaseView>>,
  query: ListQuery & { readonly limit: number },
  keeps?: (view: LeaseView) => boolean,
): Promise<Page<LeaseView>> {
  const { limit, holder, expiringWithinMs, heldForMs } = query;
  const isPlain = [holder, expiringWithinMs, heldForMs].every(isAbsent);
  if (isPlain && !keeps) return read(query);
  const items: LeaseView[] = [];
  // Nearly all leases match where `keeps` alone decides.
  let next: ListQuery = isPlain ? query : { ...query, limit: READ_AT_ONCE };
  for (let reads = 0; reads < MAX_READS; reads += 1) {
    // A store in this process does not yield by itself.
    if (reads > 0) await nextTurn();
    const { items: found, nextCursor } = await read(next);
    items.push(...found.filter((view) => matches(view, query) && (keeps?.(view) ?? true)));
    if (items.length > limit) {
      const kept = items.slice(0, limit);
      const last = kept.at(-1);
      return { items: kept, nextCursor: last ? cursorAfter(last.resource) : null };
    }
    if (nextCursor === null || items.length === limit) return { items, nextCursor };
    next = { ...next, cursor: nextCursor };
  }
  return { items, nextCursor: next.cursor ?? null };
}

function matches(view: LeaseView, { holder, expiringWithinMs, heldForMs }: Filter): boolean {
  const { state, remainingMs } = view;
  if (holder !== undefined && view.holder !== holder) return false;
  if (expiringWithinMs !== undefined && (state !== "live" || remainingMs > expiringWithinMs)) {
    return false;
  }
  return heldForMs === undefined || (heldMs(view) ?? -1) >= heldForMs;
}

/** By the store's clock only; null if unknown. */
function heldMs({ state, grantedAt, expiresAt, remainingMs }: LeaseView): number | null {
  if (state !== "live" || grantedAt === null || expiresAt === null) return null;
  return Math.max(0, Date.parse(expiresAt) - remainingMs - Date.parse(grantedAt));
}
