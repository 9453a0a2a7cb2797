/**
 * All leases as one list from three sources in order: the last grant of each resource from the lease
 * store, the grants on tasks from the task store, and replaced grants from the history. The cursor names
 * the source and the position in it.
 */
import type { Context } from "hono";
import { InvalidOptionError, type LeaseState, type LeaseView, type Page } from "leasehold";
import { leasesOfTask } from "leasehold/internal";
import { fromWireGrantId, toWireGrantId } from "leasehold/internal/wire";
import type { LeaseRecord } from "../../protocol/index.js";
import { callerOf, TASK_PREFIX } from "../auth/caller.js";
import { lastGrant, lastingMs, unknownLease } from "../compat/grants.js";
import { ProblemError } from "../problems.js";
import type { AppEnv } from "../request.js";
import type { Services } from "../services.js";

/** The filter of a list. */
export interface Wanted {
  readonly states?: readonly LeaseState[];
  readonly renewedOnly?: boolean;
}

interface PageQuery {
  readonly limit: number;
  readonly cursor?: string | undefined;
}

type Source = (limit: number, cursor: string | undefined) => Promise<Page<LeaseView>>;

/** Maximum number of reads to fill a page from the sources. */
const MAX_READS = 10;

export function toLeaseRecord(view: LeaseView): LeaseRecord {
  const { resource, holder, state, grantId, token, remainingMs } = view;
  return {
    id: toWireGrantId(resource, grantId),
    resource,
    holder,
    created_at: view.grantedAt,
    renewed_at: view.renewedAt,
    // The store sets the expiry of an ended grant to the time of its end.
    released_at: state === "released" ? view.expiresAt : null,
    expires_at: view.expiresAt,
    state,
    grantId,
    fencingToken: token,
    ttlMs: lastingMs(view),
    remainingMs,
    freeInMs: view.freeInMs ?? null,
  };
}

/** @throws INVALID_REQUEST for a cursor that is not from a page of this list */
export async function pageOfLeases(
  services: Services,
  namespace: string,
  wanted: Wanted,
  { limit, cursor }: PageQuery,
): Promise<{ items: LeaseRecord[]; nextCursor: string | null }> {
  const sources = sourcesOf(services, namespace, wanted);
  let [source, inner] = cursor === undefined ? [0, undefined] : parseCursor(cursor, sources.length);
  const items: LeaseRecord[] = [];
  for (let reads = 0; items.length < limit && reads < MAX_READS; reads++) {
    const read = sources[source];
    if (!read) break;
    const page = await read(limit - items.length, inner);
    items.push(...page.items.map(toLeaseRecord));
    if (page.nextCursor === null) source += 1;
    inner = page.nextCursor ?? undefined;
  }
  return { items, nextCursor: source < sources.length ? formatCursor(source, inner) : null };
}

function sourcesOf(
  { leases, tasks, history }: Services,
  namespace: string,
  wanted: Wanted,
): Source[] {
  const { states, renewedOnly = false } = wanted;
  const query = (limit: number, cursor: string | undefined) => ({
    namespace,
    limit,
    renewedOnly,
    ...(states && { states }),
    ...(cursor !== undefined && { cursor }),
  });
  const sources: Source[] = [
    (limit, cursor) => leases.list(query(limit, cursor)),
    (limit, cursor) => tasks.leases(query(limit, cursor)),
  ];
  const ended = states?.filter((state) => state !== "live");
  if (history && ended?.length !== 0) {
    sources.push(async (limit, cursor) => {
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
  return sources;
}

/** Finds a grant in any of the sources. */
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
    "replaced leases are kept in PostgreSQL or PGlite only: start the server with a --control database",
  );
}

function formatCursor(source: number, inner: string | undefined): string {
  const bytes = new TextEncoder().encode(JSON.stringify([source, inner ?? null]));
  const base64 = btoa(String.fromCharCode(...bytes));
  return base64.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

function parseCursor(text: string, sources: number): [number, string | undefined] {
  try {
    const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (char) => char.charCodeAt(0));
    const [source, inner] = JSON.parse(new TextDecoder().decode(bytes)) as [unknown, unknown];
    const known = Number.isInteger(source) && Number(source) >= 0 && Number(source) < sources;
    if (known && (inner === null || typeof inner === "string")) {
      return [Number(source), inner ?? undefined];
    }
  } catch {
    // Not a cursor of this list: see below.
  }
  throw new InvalidOptionError("cursor", "must come from a page of this list");
}
