/** The requests of the page of kinds. */
import { infiniteQueryOptions } from "@tanstack/react-query";
import type { Kind, KindPage } from "leasehold/internal/wire";
import { api, get } from "../../data/api.js";

export const kindsQuery = () =>
  infiniteQueryOptions({
    queryKey: ["kinds"],
    queryFn: ({ signal, pageParam }) =>
      get<KindPage>("/v1/kinds", { signal, query: { cursor: pageParam } }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
    refetchInterval: 15_000,
  });

export async function withdraw({ kind, version }: Kind, reason: string): Promise<void> {
  await api("DELETE", `/v1/kinds/${encodeURIComponent(kind)}/${version}`, { query: { reason } });
}
