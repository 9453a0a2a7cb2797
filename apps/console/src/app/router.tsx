/** The routes: which path shows which page. */
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
} from "@tanstack/react-router";
import { BASE_PATH } from "../data/base.js";
import { Empty, Failure, Skeleton } from "../ui/states.js";
import type { Search } from "./search.js";
import { Shell } from "./shell.js";

const validateSearch = (search: Record<string, unknown>): Search =>
  Object.fromEntries(
    Object.entries(search).flatMap(([name, value]) =>
      typeof value === "string" ? [[name, value]] : [],
    ),
  );

const root = createRootRoute({ component: Shell, validateSearch });
const getParentRoute = () => root;

const routes = [
  createRoute({
    getParentRoute,
    path: "/",
    component: lazyRouteComponent(
      () => import("../pages/overview/overview-page.js"),
      "OverviewPage",
    ),
  }),
  createRoute({
    getParentRoute,
    path: "/leases",
    component: lazyRouteComponent(() => import("../pages/leases/leases-page.js"), "LeasesPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/leases/$resource",
    component: lazyRouteComponent(() => import("../pages/leases/resource-page.js"), "ResourcePage"),
  }),
  createRoute({
    getParentRoute,
    path: "/tasks",
    component: lazyRouteComponent(() => import("../pages/tasks/tasks-page.js"), "TasksPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/tasks/$id",
    component: lazyRouteComponent(() => import("../pages/tasks/task-page.js"), "TaskPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/schedules",
    component: lazyRouteComponent(
      () => import("../pages/schedules/schedules-page.js"),
      "SchedulesPage",
    ),
  }),
  createRoute({
    getParentRoute,
    path: "/workers",
    component: lazyRouteComponent(() => import("../pages/tasks/workers-page.js"), "WorkersPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/once",
    component: lazyRouteComponent(() => import("../pages/once/once-page.js"), "OncePage"),
  }),
  createRoute({
    getParentRoute,
    path: "/elections",
    component: lazyRouteComponent(
      () => import("../pages/elections/elections-page.js"),
      "ElectionsPage",
    ),
  }),
  createRoute({
    getParentRoute,
    path: "/events",
    component: lazyRouteComponent(() => import("../pages/events/events-page.js"), "EventsPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/audit",
    component: lazyRouteComponent(() => import("../pages/audit/audit-page.js"), "AuditPage"),
  }),
  createRoute({
    getParentRoute,
    path: "/keys",
    component: lazyRouteComponent(() => import("../pages/keys/keys-page.js"), "KeysPage"),
  }),
];

export const router = createRouter({
  routeTree: root.addChildren(routes),
  basepath: BASE_PATH || "/",
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(search)) {
      if (value !== undefined && value !== "") query.set(name, String(value));
    }
    return query.size > 0 ? `?${query}` : "";
  },
  defaultPreload: "intent",
  defaultPendingComponent: () => <Skeleton />,
  defaultErrorComponent: ({ error, reset }) => <Failure error={error} retry={reset} />,
  defaultNotFoundComponent: () => <Empty title="Page not found" />,
  scrollRestoration: true,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
