/** The requests of the page of `once`. */
import { infiniteQueryOptions } from "@tanstack/react-query";
import type { OncePage, OnceRecord } from "leasehold/internal/wire";
import { api, get } from "../../data/api.js";

export interface OnceFilter {
  readonly prefix?: string | undefined;
  readonly state?: string | undefined;
}

const PAGE = 50;

export const onceQuery = (filter: OnceFilter) =>
  infiniteQueryOptions({
    queryKey: ["once", filter],
    queryFn: ({ signal, pageParam }) =>
      get<OncePage>("/v1/once", { signal, query: { ...filter, limit: PAGE, cursor: pageParam } }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
  });

export type OnceAction = "retry" | "delete";

export async function act(action: OnceAction, { key }: OnceRecord, reason: string): Promise<void> {
  const path = `/v1/once/${encodeURIComponent(key)}`;
  if (action === "retry") await api("POST", `${path}/retry`, { query: { reason } });
  else await api("DELETE", path, { query: { reason } });
}
