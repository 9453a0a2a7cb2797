import type { IconName } from "leasehold-ui";

/** The pages of the navigation. `g` followed by `key` opens a page. */
export const PAGES = [
  { path: "/", name: "Overview", icon: "overview", key: "o" },
  { path: "/leases", name: "Leases", icon: "lease", key: "l" },
  { path: "/tasks", name: "Tasks", icon: "task", key: "t" },
  { path: "/schedules", name: "Schedules", icon: "schedule", key: "c" },
  { path: "/workers", name: "Workers", icon: "worker", key: "w" },
  { path: "/once", name: "Once", icon: "once", key: "n" },
  { path: "/elections", name: "Elections", icon: "election", key: "e" },
  { path: "/events", name: "Events", icon: "events", key: "v" },
  { path: "/audit", name: "Audit", icon: "audit", key: "a" },
  { path: "/keys", name: "Keys", icon: "key", key: "y" },
] as const satisfies readonly { path: string; name: string; icon: IconName; key: string }[];
