import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "./api.js";

/** Polls for changes that no event announces. */
const POLL_EVERY_MS = 10_000;
const MOST_RETRIES = 2;

/** A retry would give the same response. An overloaded server (429) only asks for some time. */
const isFinal = (error: unknown) =>
  error instanceof ApiError && error.status >= 400 && error.status < 500 && error.status !== 429;

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 1_000,
      refetchInterval: POLL_EVERY_MS,
      retry: (failures, error) => failures < MOST_RETRIES && !isFinal(error),
      // Keep the previous data on the screen while the next response loads.
      placeholderData: <T>(before: T) => before,
    },
  },
});
