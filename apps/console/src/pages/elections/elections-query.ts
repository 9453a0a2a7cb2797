import { queryOptions } from "@tanstack/react-query";
import type { Elections } from "leasehold/internal/wire";
import { get } from "../../data/api.js";

export type Election = Elections["items"][number];
export type ShardGroup = Elections["shards"][number];

export const electionsQuery = queryOptions({
  queryKey: ["elections"],
  queryFn: ({ signal }) => get<Elections>("/v1/elections", { signal }),
});
