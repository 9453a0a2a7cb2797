/** Who the server takes us for, and what that role may do. */
import { queryOptions, useQuery } from "@tanstack/react-query";
import type { Whoami } from "leasehold/internal/wire";
import { get } from "./api.js";

export const whoQuery = queryOptions({
  queryKey: ["who"],
  queryFn: ({ signal }) => get<Whoami>("/v1/whoami", { signal }),
  refetchInterval: false,
  staleTime: 60_000,
});

/** Nothing is offered that the server would refuse; it refuses all the same. */
export function useMay(need: Whoami["may"][number]): boolean {
  return useQuery(whoQuery).data?.may.includes(need) ?? false;
}
