/** The caller as the server sees it, and what its role may do. */
import { queryOptions, useQuery } from "@tanstack/react-query";
import type { Whoami } from "leasehold/internal/wire";
import { get } from "./api.js";

export const whoQuery = queryOptions({
  queryKey: ["who"],
  queryFn: ({ signal }) => get<Whoami>("/v1/whoami", { signal }),
  refetchInterval: false,
  staleTime: 60_000,
});

/** Whether the role has this permission. The console hides what the server would refuse. */
export function useMay(need: Whoami["may"][number]): boolean {
  return useQuery(whoQuery).data?.may.includes(need) ?? false;
}
