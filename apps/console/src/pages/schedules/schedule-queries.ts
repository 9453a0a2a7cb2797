/** The requests of the page of schedules. */
import { infiniteQueryOptions } from "@tanstack/react-query";
import type { Schedule, SchedulePage } from "leasehold/internal/wire";
import { api, get } from "../../data/api.js";

export const schedulesQuery = () =>
  infiniteQueryOptions({
    queryKey: ["schedules"],
    queryFn: ({ signal, pageParam }) =>
      get<SchedulePage>("/v1/schedules", { signal, query: { cursor: pageParam } }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
    refetchInterval: 5_000,
  });

export type ScheduleAction = "pause" | "resume" | "run" | "remove";

export async function act(
  action: ScheduleAction,
  { name }: Schedule,
  reason: string,
): Promise<void> {
  const path = `/v1/schedules/${encodeURIComponent(name)}`;
  if (action === "remove") await api("DELETE", path, { query: { reason } });
  else await api("POST", `${path}/${action}`, { query: { reason } });
}
