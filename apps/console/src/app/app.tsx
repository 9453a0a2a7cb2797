import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { ThemeProvider } from "leasehold-ui";
import { Tooltip } from "radix-ui";
import { useEffect } from "react";
// Imported here so that the log records from the start, whichever page is open.
import "../data/activity-log.js";
import { activity, notifications, refreshQueries } from "../data/live.js";
import { queries } from "../data/queries.js";
import { session } from "../data/session.js";
import { TimesProvider } from "../ui/time.js";
import { Toasts } from "../ui/toast.js";
import { router } from "./router.js";

export function App() {
  useEffect(() => {
    const stopRefreshing = refreshQueries(queries);
    let ending = new AbortController();
    const follow = () => {
      ending.abort();
      ending = new AbortController();
      for (const stream of [notifications, activity]) void stream.follow(ending.signal);
    };
    follow();
    // Another key may belong to another tenant.
    let key = session.key();
    const stopSession = session.subscribe(() => {
      if (session.key() === key) return;
      key = session.key();
      queries.clear();
      if (key !== null) follow();
    });
    return () => {
      ending.abort();
      stopSession();
      stopRefreshing();
    };
  }, []);
  return (
    <ThemeProvider>
      <TimesProvider>
        <QueryClientProvider client={queries}>
          <Tooltip.Provider delayDuration={300}>
            <RouterProvider router={router} />
            <Toasts />
          </Tooltip.Provider>
        </QueryClientProvider>
      </TimesProvider>
    </ThemeProvider>
  );
}
