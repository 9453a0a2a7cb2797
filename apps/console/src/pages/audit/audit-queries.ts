/** The requests of the audit page. */
import { infiniteQueryOptions } from "@tanstack/react-query";
import type { AuditPage } from "leasehold/internal/wire";
import { get } from "../../data/api.js";

export type Entry = AuditPage["items"][number];

/** The actor that the key proves, and beside it the one that the caller claims. */
export function actorText({ actor, claimedActor }: Pick<Entry, "actor" | "claimedActor">): string {
  return claimedActor === null ? actor : `${actor}, claims ${claimedActor}`;
}

export interface AuditFilter {
  readonly target?: string | undefined;
  readonly action?: string | undefined;
}

const PAGE = 100;
const MOST_ENTRIES = 200;

const pageOf = (filter: AuditFilter, limit: number, cursor?: string, signal?: AbortSignal) =>
  get<AuditPage>("/v1/audit", { ...(signal && { signal }), query: { ...filter, limit, cursor } });

export const auditQuery = (filter: AuditFilter) =>
  infiniteQueryOptions({
    queryKey: ["audit", "list", filter],
    queryFn: ({ signal, pageParam }) => pageOf(filter, PAGE, pageParam, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
    placeholderData: undefined as never,
  });

export interface Verification {
  readonly ok: boolean;
  readonly seq: number;
  readonly hash: string | null;
  readonly problem: string | null;
}

export const verify = (): Promise<Verification> => get("/v1/audit/verify");

/**
 * All matching entries as JSON lines, newest first.
 * @throws ApiError if a page fails; the export is all or nothing
 */
export async function exported(
  filter: AuditFilter,
  fits: (entry: Entry) => boolean,
  onRead: (count: number) => void,
): Promise<string> {
  const lines: string[] = [];
  let read = 0;
  let cursor: string | undefined;
  do {
    const { items, nextCursor } = await pageOf(filter, MOST_ENTRIES, cursor);
    lines.push(...items.filter(fits).map((entry) => `${JSON.stringify(entry)}\n`));
    read += items.length;
    onRead(read);
    cursor = nextCursor ?? undefined;
  } while (cursor !== undefined);
  return lines.join("");
}
