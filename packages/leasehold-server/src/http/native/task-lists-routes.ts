/** /api/tasks for readers: lists by state, counts, and a task with its attempts. */
import { createRoute, type z } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { TaskLeaseQuery, TaskQuery, TaskState } from "leasehold/internal";
import { withoutUndefined } from "leasehold/internal";
import { toWireDetails, toWireTask } from "leasehold/internal/wire";
import {
  Counts,
  LeasePage,
  ListQuery,
  StateListQuery,
  TaskDetails,
  TaskLeaseListQuery,
  TaskPage,
  TaskParams,
} from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { unknownTask } from "../problems.js";
import type { AppEnv } from "../request.js";
import { needs } from "../route-rules.js";
import { type App, answers, otherMethods, problems } from "../routing.js";
import type { Services } from "../services.js";

const TAGS = ["tasks"];

type Filters = z.infer<typeof StateListQuery> & {
  ids?: string[] | undefined;
  states?: TaskState[] | undefined;
};

/** Path names and their states. `started` and `processed` are names of the compatibility format. */
const LISTS: Readonly<Record<string, TaskState>> = {
  pending: "pending",
  started: "running",
  processed: "done",
  dead: "dead",
  cancelled: "cancelled",
  expired: "expired",
};

export function taskListRoutes(app: App, services: Services): void {
  const { tasks } = services;
  const page = async (context: Context<AppEnv>, filters: Filters) => {
    const { namespace } = callerOf(context);
    const query = { ...withoutUndefined(filters), namespace } as TaskQuery;
    const read = () => tasks.list(query);
    const { items, nextCursor } = await (passesOver(query)
      ? services.scan(context, read)
      : services.page(context, filters.ids?.length ?? filters.limit, read));
    return { items: items.map(toWireTask), nextCursor };
  };
  const responses = {
    200: answers("Newest first.", TaskPage),
    ...problems("INVALID_REQUEST"),
  };

  app.openapi(
    createRoute({
      ...needs("readTasks"),
      method: "get",
      path: "/api/tasks",
      tags: TAGS,
      summary: "List tasks, optionally by state",
      request: { query: ListQuery },
      responses,
    }),
    async (context) => {
      const { id: ids, state: states, ...query } = context.req.valid("query");
      return context.json(await page(context, { ...query, ids, states }), 200);
    },
  );
  otherMethods(app, "/api/tasks", "GET", "POST");

  for (const [name, state] of Object.entries(LISTS)) {
    app.openapi(
      createRoute({
        ...needs("readTasks"),
        method: "get",
        path: `/api/tasks/${name}`,
        tags: TAGS,
        summary: `List ${state} tasks`,
        request: { query: StateListQuery },
        responses,
      }),
      async (context) => {
        const query = { ...context.req.valid("query"), states: [state] };
        return context.json(await page(context, query), 200);
      },
    );
    otherMethods(app, `/api/tasks/${name}`, "GET");
  }

  app.openapi(
    createRoute({
      ...needs("readTasks"),
      method: "get",
      path: "/api/tasks/counts",
      tags: TAGS,
      summary: "Count tasks by state",
      responses: { 200: answers("Counts by state.", Counts), ...problems() },
    }),
    async (context) => {
      const { namespace } = callerOf(context);
      const counts = await services.scan(context, () => tasks.counts(namespace));
      return context.json(counts, 200);
    },
  );
  otherMethods(app, "/api/tasks/counts", "GET");

  app.openapi(
    createRoute({
      ...needs("readTasks"),
      method: "get",
      path: "/api/tasks/leases",
      tags: TAGS,
      summary: "List leases on tasks, live and ended, as leases on `task:ID`",
      request: { query: TaskLeaseListQuery },
      responses: {
        200: answers("Newest task first; within a task, newest grant first.", LeasePage),
        ...problems("INVALID_REQUEST"),
      },
    }),
    async (context) => {
      const { state: states, ...rest } = context.req.valid("query");
      const { namespace } = callerOf(context);
      const query = { ...withoutUndefined({ ...rest, states }), namespace } as TaskLeaseQuery;
      const read = () => tasks.leases(query);
      const { items, nextCursor } = await services.scan(context, read);
      const views = items.map(({ namespace: _, ...view }) => view);
      return context.json({ items: views, nextCursor }, 200);
    },
  );
  otherMethods(app, "/api/tasks/leases", "GET");
}

/** Whether a page may cost more than its items, because the tasks between them do not match. Ids are looked up. */
function passesOver({ ids, states, queue, kind, excludeDue = false }: TaskQuery): boolean {
  if (ids) return false;
  return excludeDue || [states, queue, kind].some((filter) => filter !== undefined);
}

/** Declared after all other routes under /api/tasks/, because an id matches any of their names. */
export function taskRoute(app: App, services: Services): void {
  const { tasks } = services;
  app.openapi(
    createRoute({
      ...needs("readTasks"),
      method: "get",
      path: "/api/tasks/{id}",
      tags: TAGS,
      summary: "Read a task with its attempts",
      request: { params: TaskParams },
      responses: {
        200: answers("The task.", TaskDetails),
        ...problems("UNKNOWN_TASK"),
      },
    }),
    async (context) => {
      const { id } = context.req.valid("param");
      const { namespace } = callerOf(context);
      const task = await services.page(context, 1, () => tasks.get({ namespace, id }));
      if (!task) throw unknownTask();
      return context.json(toWireDetails(task), 200);
    },
  );
  otherMethods(app, "/api/tasks/:id", "GET", "DELETE");
}
