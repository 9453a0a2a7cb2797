/** /v1/tasks: results and statistics of tasks. */
import { createRoute } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { TaskResult as Result, TaskKey } from "leasehold/internal";
import { BOUNDS } from "leasehold/internal/wire";
import {
  BlockedKeys,
  BlockedKeysQuery,
  ResultsBody,
  StatsQuery,
  TaskParams,
  TaskResult,
  TaskResults,
  TaskStatistics,
  WaitQuery,
} from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { unknownTask } from "../problems.js";
import { type AppEnv, limitBody } from "../request.js";
import { needs } from "../route-rules.js";
import {
  type App,
  answers,
  bodyProblems,
  defined,
  jsonBody,
  otherMethods,
  problems,
} from "../routing.js";
import type { Services } from "../services.js";

const TAGS = ["tasks"];
/** Each may have 512 bytes of names. A tenant that gives every task a kind of its own would otherwise be answered 13 MB. */
const MOST_STATISTICS = 1_000;

export function taskResultRoutes(app: App, services: Services): void {
  const { tasks } = services;
  app.openapi(
    createRoute({
      ...needs("readTasks"),
      method: "get",
      path: "/v1/tasks/stats",
      tags: TAGS,
      summary: "Count tasks by queue, kind and state",
      request: { query: StatsQuery },
      responses: {
        200: answers("By queue and kind.", TaskStatistics),
        ...problems("INVALID_REQUEST"),
      },
    }),
    async (context) => {
      const asked = context.req.valid("query");
      const { queue: queues, kind: kinds, version, unfinishedOnly, limit } = asked;
      const { namespace } = callerOf(context);
      const versions =
        kinds && version && Object.fromEntries(kinds.map((kind, at) => [kind, version[at] ?? 1]));
      const query = { ...defined({ queues, kinds, versions, unfinishedOnly }), namespace, limit };
      const stats = async () => {
        const { items, complete } = await tasks.stats(query);
        const some = items.slice(0, MOST_STATISTICS);
        return { items: some, complete: complete && some.length === items.length };
      };
      return context.json(await services.scan(context, stats), 200);
    },
  );
  otherMethods(app, "/v1/tasks/stats", "GET");

  app.openapi(
    createRoute({
      ...needs("readTasks"),
      method: "get",
      path: "/v1/tasks/keys",
      tags: TAGS,
      summary: "List the concurrency keys that keep tasks back",
      request: { query: BlockedKeysQuery },
      responses: {
        200: answers("Those with the most pending tasks first.", BlockedKeys),
        ...problems("INVALID_REQUEST"),
      },
    }),
    async (context) => {
      const { limit, queue, kind, key } = context.req.valid("query");
      const only = queue !== undefined && kind !== undefined && key !== undefined;
      const name = only ? { only: { queue, kind, key } } : {};
      const query = { ...name, namespace: callerOf(context).namespace, limit };
      const read = async () => (await tasks.blockedKeys?.(query)) ?? [];
      const items = await services.scan(context, read);
      return context.json(
        { items: [...items].map((item) => ({ ...item, by: [...item.by] })) },
        200,
      );
    },
  );
  otherMethods(app, "/v1/tasks/keys", "GET");

  app.openapi(
    createRoute({
      ...needs("readTasks"),
      method: "post",
      path: "/v1/tasks/results",
      tags: TAGS,
      summary:
        "Read the results of many tasks, and ask to be notified of those that have not ended",
      middleware: limitBody(BOUNDS.batchBodyBytes),
      request: jsonBody(ResultsBody),
      responses: { 200: answers("One result per id, in order.", TaskResults), ...bodyProblems() },
    }),
    async (context) => {
      const { ids, notifyMs } = context.req.valid("json");
      const { namespace } = callerOf(context);
      const keys = ids.map((id) => ({ namespace, id }));
      const options = notifyMs > 0 ? { notifyMs } : {};
      const read = () => tasks.results(keys, options);
      const results = await services.page(context, ids.length, read);
      return context.json(
        results.map(({ id: _, ...result }) => result),
        200,
      );
    },
  );
  otherMethods(app, "/v1/tasks/results", "POST");

  app.openapi(
    createRoute({
      ...needs("readTasks", "waits"),
      method: "get",
      path: "/v1/tasks/{id}/result",
      tags: TAGS,
      summary: "Read the result of a task, or wait for it",
      request: { params: TaskParams, query: WaitQuery },
      responses: {
        200: answers("How the task has ended, or that it has not.", TaskResult),
        ...problems("UNKNOWN_TASK", "LIMIT_REACHED", "INVALID_REQUEST"),
      },
    }),
    async (context) => {
      const { id } = context.req.valid("param");
      const key = { namespace: callerOf(context).namespace, id };
      const waitMs = services.budget(context).waitMs(context.req.valid("query").waitMs);
      const ended = waitMs > 0 ? await waitFor(services, context, key, waitMs) : null;
      const result = ended ?? (await readOne(services, context, key));
      if (result.state === "unknown") throw unknownTask();
      return context.json(result, 200);
    },
  );
  otherMethods(app, "/v1/tasks/:id/result", "GET");
}

async function readOne(
  services: Services,
  context: Context<AppEnv>,
  key: TaskKey,
): Promise<Result> {
  const [result] = await services.page(context, 1, () => services.tasks.results([key]));
  return result ?? { id: key.id, state: "unknown" };
}

/**
 * Ends when the key of its caller does. Null if the task has not ended.
 * @throws UNAUTHENTICATED if the key has ended
 */
async function waitFor(
  { authenticator, tenants }: Services,
  context: Context<AppEnv>,
  { namespace, id }: TaskKey,
  timeoutMs: number,
): Promise<Result | null> {
  const caller = callerOf(context);
  const wait = authenticator.watch(caller, context.req.raw.signal);
  try {
    const { signal } = wait;
    const result = await tenants.of(namespace).result(id, { timeoutMs, signal });
    await authenticator.checkAgain(caller);
    return result;
  } finally {
    wait.stop();
  }
}
