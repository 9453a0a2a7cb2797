/**
 * All leases as one list, from three places one after the other: the last grant of each resource from
 * the lease store, the grants on tasks from the task store, and from the history what the last
 * grants replaced. The cursor says the place and how far one has come in it.
 */
import type { Context } from "hono";
import { InvalidOptionError, type LeaseState, type LeaseView, type Page } from "leasehold";
import { leasesOfTask } from "leasehold/internal";
import { fromWireGrantId, toWireGrantId } from "leasehold/internal/wire";
import type { LeaseRecord } from "../../protocol/index.js";
import { callerOf, TASK_PREFIX } from "../auth/caller.js";
import { lastGrant, unknownLease } from "../compat/grants.js";
import { ProblemError } from "../problems.js";
import type { AppEnv, Budget } from "../request.js";
import type { Services } from "../services.js";

/** Which leases a list is of. */
export interface Wanted {
  readonly states?: readonly LeaseState[];
  readonly renewedOnly?: boolean;
}

interface PageQuery {
  readonly limit: number;
  readonly cursor?: string | undefined;
}

type Place = (limit: number, cursor: string | undefined) => Promise<Page<LeaseView>>;

/** A page is filled from one place after the other; from one place it is asked for at most so often. */
const MOST_READS = 10;

export function toLeaseRecord(view: LeaseView): LeaseRecord {
  const { resource, holder, state, grantId, token, ttlMs, remainingMs } = view;
  return {
    id: toWireGrantId(resource, grantId),
    resource,
    holder,
    created_at: view.grantedAt,
    renewed_at: view.renewedAt,
    // However a grant ended, its expiry is when it did.
    released_at: state === "released" ? view.expiresAt : null,
    expires_at: view.expiresAt,
    state,
    grantId,
    fencingToken: token,
    ttlMs,
    remainingMs,
  };
}

/** @throws INVALID_REQUEST for a cursor that no page has given */
export async function pageOfLeases(
  services: Services,
  context: Context<AppEnv>,
  budget: Budget,
  wanted: Wanted,
  { limit, cursor }: PageQuery,
): Promise<{ items: LeaseRecord[]; nextCursor: string | null }> {
  const places = placesOf(services, callerOf(context).namespace, wanted);
  let [place, inner] = cursor === undefined ? [0, undefined] : parseCursor(cursor, places.length);
  const items: LeaseRecord[] = [];
  for (let reads = 0; items.length < limit && reads < MOST_READS; reads++) {
    const read = places[place];
    if (!read) break;
    const page = await budget.read(() => read(limit - items.length, inner));
    items.push(...page.items.map(toLeaseRecord));
    if (page.nextCursor === null) place += 1;
    inner = page.nextCursor ?? undefined;
  }
  return { items, nextCursor: place < places.length ? formatCursor(place, inner) : null };
}

function placesOf(
  { leases, tasks, history }: Services,
  namespace: string,
  wanted: Wanted,
): Place[] {
  const { states, renewedOnly = false } = wanted;
  const query = (limit: number, cursor: string | undefined) => ({
    namespace,
    limit,
    renewedOnly,
    ...(states && { states }),
    ...(cursor !== undefined && { cursor }),
  });
  const places: Place[] = [
    (limit, cursor) => leases.list(query(limit, cursor)),
    (limit, cursor) => tasks.leases(query(limit, cursor)),
  ];
  const ended = states?.filter((state) => state !== "live");
  if (history && ended?.length !== 0) {
    places.push(async (limit, cursor) => {
      const page = await history.list({
        namespace,
        limit,
        ...(ended && { states: ended }),
        ...(cursor !== undefined && { cursor }),
      });
      if (!renewedOnly) return page;
      return { ...page, items: page.items.filter(({ renewedAt }) => renewedAt !== null) };
    });
  }
  return places;
}

/** One grant, wherever it is kept. */
export async function findLease(
  services: Services,
  context: Context<AppEnv>,
  id: string,
): Promise<LeaseRecord> {
  const { namespace } = callerOf(context);
  const { tasks, history } = services;
  const named = fromWireGrantId(id);
  if (!named) throw unknownLease();
  const { resource, grantId } = named;
  const last = await lastGrant(services, context, resource);
  if (last?.grantId === grantId) return toLeaseRecord(last);
  const budget = services.budget(context);
  if (resource.startsWith(TASK_PREFIX)) {
    const task = await budget.read(() =>
      tasks.get({ namespace, id: resource.slice(TASK_PREFIX.length) }),
    );
    const grant = task && leasesOfTask(namespace, task).find((view) => view.grantId === grantId);
    if (grant) return toLeaseRecord(grant);
  }
  if (!history) throw noHistory();
  const ended = await budget.read(() => history.find({ namespace, resource }, grantId));
  if (!ended) throw unknownLease();
  return toLeaseRecord(ended);
}

export function noHistory(): ProblemError {
  return new ProblemError(
    "NO_HISTORY",
    "leases that were replaced are kept in PostgreSQL or PGlite only: give the server a --control database",
  );
}

function formatCursor(place: number, inner: string | undefined): string {
  const bytes = new TextEncoder().encode(JSON.stringify([place, inner ?? null]));
  const base64 = btoa(String.fromCharCode(...bytes));
  return base64.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function parseCursor(text: string, places: number): [number, string | undefined] {
  try {
    const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (char) => char.charCodeAt(0));
    const [place, inner] = JSON.parse(new TextDecoder().decode(bytes)) as [unknown, unknown];
    const known = Number.isInteger(place) && Number(place) >= 0 && Number(place) < places;
    if (known && (inner === null || typeof inner === "string")) {
      return [Number(place), inner ?? undefined];
    }
  } catch {
    // Not one of ours: see below.
  }
  throw new InvalidOptionError("cursor", "must come from a page of this list");
}
