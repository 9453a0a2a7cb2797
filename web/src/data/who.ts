/** Who the server takes us for, and what that role may do. */
import { queryOptions, useQuery } from "@tanstack/react-query";
import { get } from "./api.js";

export interface Who {
  readonly namespace: string;
  readonly role: "viewer" | "holder" | "operator" | "admin";
  readonly prefixes: readonly string[];
  readonly actor: string;
  /** Whether the server asks for keys. */
  readonly keys: boolean;
}

export const whoQuery = queryOptions({
  queryKey: ["who"],
  queryFn: ({ signal }) => get<Who>("/v1/whoami", { signal }),
  refetchInterval: false,
  staleTime: 60_000,
});

/** Nothing is offered that the server would refuse; it refuses all the same. */
export function useMay(): {
  readonly operate: boolean;
  readonly hold: boolean;
  readonly administer: boolean;
} {
  const role = useQuery(whoQuery).data?.role;
  return {
    operate: role === "operator" || role === "admin",
    hold: role === "holder" || role === "admin",
    administer: role === "admin",
  };
}
