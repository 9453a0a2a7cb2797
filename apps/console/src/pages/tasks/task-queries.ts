/** The requests of the task pages. */
import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import {
  type BlockedKeys,
  type Counts,
  type PauseList,
  type Task,
  type TaskDetails,
  type TaskLimits,
  type TaskPage,
  taskInPath,
  type Why,
  type Workers,
} from "leasehold/internal/wire";
import type { GeneratorStatus } from "leasehold-server/internal/generator";
import { get } from "../../data/api.js";

export const STATES = ["pending", "running", "done", "dead", "cancelled", "expired"] as const;
export type State = Task["state"];

export interface TaskFilter {
  readonly state?: State | undefined;
  readonly queue?: string | undefined;
  readonly kind?: string | undefined;
}

/** The URL's state, if it is valid. */
export const stateOf = (text: string | undefined): State | undefined =>
  STATES.find((state) => state === text);

export const countsQuery = queryOptions({
  queryKey: ["tasks", "counts"],
  queryFn: ({ signal }) => get<Counts>("/api/tasks/counts", { signal }),
});

/** Keys that are named at most. */
const BLOCKED_KEYS = 5;
const PAGE = 100;
/** A list with more pages stops updating, because each change would refetch all of them. */
export const LIVE_PAGES = 3;

export const taskListQuery = (filter: TaskFilter) =>
  infiniteQueryOptions({
    queryKey: ["tasks", "list", filter],
    queryFn: ({ signal, pageParam }) =>
      get<TaskPage>("/api/tasks", {
        signal,
        query: { ...filter, limit: PAGE, cursor: pageParam },
      }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: ({ nextCursor }) => nextCursor ?? undefined,
    enabled: ({ state: { data } }) => (data?.pages.length ?? 0) <= LIVE_PAGES,
    // Actions must never apply to rows of the previous filter.
    placeholderData: undefined as never,
  });

export const taskQuery = (id: string) =>
  queryOptions({
    queryKey: ["task", id],
    queryFn: ({ signal }) => get<TaskDetails>(`/api/tasks/${taskInPath(id)}`, { signal }),
    placeholderData: undefined as never,
  });

/** The data of the last task of a kind, as an example for the next one. Null: there is none, or it is too large for a list. */
export const exampleQuery = (kind: string) =>
  queryOptions({
    // Not below "tasks": an event of a task must not change a form that is open.
    queryKey: ["example", kind],
    queryFn: async ({ signal }) => {
      const { items } = await get<TaskPage>("/api/tasks", { signal, query: { kind, limit: 1 } });
      const data = items[0]?.task_data;
      return data === undefined ? null : JSON.stringify(data, null, 2);
    },
    enabled: kind !== "",
    refetchInterval: false,
    refetchOnWindowFocus: false,
    placeholderData: undefined as never,
  });

/** Delays and queue positions change without an event. */
const WHY_EVERY_MS = 3_000;
export const whyQuery = (id: string) =>
  queryOptions({
    queryKey: ["task", id, "why"],
    queryFn: ({ signal }) => get<Why>(`/api/tasks/${taskInPath(id)}/why`, { signal }),
    refetchInterval: WHY_EVERY_MS,
    placeholderData: undefined as never,
  });

export const generatorQuery = queryOptions({
  queryKey: ["generator"],
  queryFn: ({ signal }) => get<GeneratorStatus>("/api/generator", { signal }),
  // Renewals and handovers of its lease cause no operator event.
  refetchInterval: 2_000,
});

export const pausesQuery = queryOptions({
  queryKey: ["pauses"],
  queryFn: ({ signal }) => get<PauseList>("/v1/pauses", { signal }),
});

/** Keys are blocked and freed without an event. */
const KEYS_EVERY_MS = 5_000;
export const blockedKeysQuery = queryOptions({
  queryKey: ["tasks", "keys"],
  queryFn: ({ signal }) =>
    get<BlockedKeys>("/v1/tasks/keys", { signal, query: { limit: BLOCKED_KEYS } }),
  refetchInterval: KEYS_EVERY_MS,
});

export const taskLimitsQuery = queryOptions({
  queryKey: ["tasks", "limits"],
  queryFn: ({ signal }) => get<TaskLimits>("/v1/tasks/limits", { signal }),
  refetchInterval: KEYS_EVERY_MS,
});

export const workersQuery = queryOptions({
  queryKey: ["workers"],
  queryFn: ({ signal }) => get<Workers>("/v1/workers", { signal }),
});
