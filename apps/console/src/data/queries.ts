import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "./api.js";

/** Events say when something changed; asking again after a while is for what they do not tell. */
const ASK_AGAIN_MS = 10_000;
const MOST_RETRIES = 2;

export const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 1_000,
      refetchInterval: ASK_AGAIN_MS,
      retry: (failures, error) =>
        failures < MOST_RETRIES &&
        !(error instanceof ApiError && error.status >= 400 && error.status < 500),
      // What was there stays on the screen while the next answer comes.
      placeholderData: <T>(before: T) => before,
    },
  },
});
