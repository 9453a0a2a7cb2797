/** /v1/tasks/limits: the limits of kinds and queues. What operators do has an audit entry; what workers declare has none. */
import { createRoute } from "@hono/zod-openapi";
import type { DeclareLimitOutcome, TaskLimits as Store } from "leasehold/internal";
import { BOUNDS } from "leasehold/internal/wire";
import {
  ReasonQuery,
  TaskLimitBody,
  TaskLimitDeclared,
  TaskLimitQuery,
  TaskLimitRemoved,
  TaskLimits,
} from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { byCaller, checkReason, controlOf } from "../operations/operator-action.js";
import { failed, ProblemError, tooMany } from "../problems.js";
import { limitBody } from "../request.js";
import { needs } from "../route-rules.js";
import { type App, answers, bodyProblems, jsonBody, otherMethods, problems } from "../routing.js";
import type { Services } from "../services.js";

const PATH = "/v1/tasks/limits";
const TAGS = ["tasks"];

/** @throws NO_TASK_LIMITS */
function limitsOf({ tasks }: Pick<Services, "tasks">): Store {
  if (tasks.limits) return tasks.limits;
  throw new ProblemError("NO_TASK_LIMITS", "its store of tasks keeps none");
}

export function taskLimitRoutes(app: App, services: Services): void {
  app.openapi(
    createRoute({
      ...needs("readTasks"),
      method: "get",
      path: PATH,
      tags: TAGS,
      summary: "List the limits of kinds and queues, with what they keep back",
      responses: {
        200: answers("By scope and name.", TaskLimits),
        ...problems("NO_TASK_LIMITS"),
      },
    }),
    async (context) => {
      const { namespace } = callerOf(context);
      const read = () => limitsOf(services).list(namespace);
      const items = await services.scan(context, read);
      return context.json(
        { items: items.map(({ namespace: _, ...item }) => ({ ...item, by: [...item.by] })) },
        200,
      );
    },
  );

  app.openapi(
    createRoute({
      ...needs("work"),
      method: "put",
      path: PATH,
      tags: TAGS,
      summary: "Declare the limit of a kind or a queue, as a program",
      middleware: limitBody(BOUNDS.bodyBytes),
      request: jsonBody(TaskLimitBody),
      responses: {
        200: answers(
          "The newest declaration counts; `none`: it was so already.",
          TaskLimitDeclared,
        ),
        ...bodyProblems("LIMIT_REACHED", "NO_TASK_LIMITS"),
      },
    }),
    async (context) => {
      const { scope, name, ...limit } = context.req.valid("json");
      const { namespace } = callerOf(context);
      const by = byCaller(context, undefined);
      const request = { namespace, scope, name, limit, by: by.claimedActor ?? by.actor };
      const timeoutMs = services.budget(context).storeMs();
      const outcome = await limitsOf(services).declare(request, { timeoutMs });
      return context.json({ scope, name, change: changeOf(outcome) }, 200);
    },
  );

  app.openapi(
    createRoute({
      ...needs("operate"),
      method: "post",
      path: PATH,
      tags: TAGS,
      summary: "Set the limit of a kind or a queue, as an operator",
      middleware: limitBody(BOUNDS.bodyBytes),
      request: { query: ReasonQuery, ...jsonBody(TaskLimitBody) },
      responses: {
        200: answers(
          "Counts until a program declares another one; `none`: it was so already.",
          TaskLimitDeclared,
        ),
        ...bodyProblems("LIMIT_REACHED", "NO_TASK_LIMITS", "NO_CONTROL"),
      },
    }),
    async (context) => {
      const { scope, name, ...limit } = context.req.valid("json");
      const { reason } = context.req.valid("query");
      limitsOf(services);
      const control = controlOf(services);
      checkReason(context, "reason", reason);
      const { namespace } = callerOf(context);
      const by = byCaller(context, reason);
      const request = { namespace, scope, name, limit, by: by.claimedActor ?? by.actor };
      const act = {
        ...by,
        namespace,
        action: "taskLimit.set",
        target: `${scope} ${name}`,
      } as const;
      const outcome = await services.budget(context).change(() =>
        control.perform(act, async ({ taskLimits }) => {
          const value = await taskLimits.declare(request);
          return { value, details: { ...limit, outcome: outcomeOf(value) } };
        }),
      );
      return context.json({ scope, name, change: changeOf(outcome) }, 200);
    },
  );

  app.openapi(
    createRoute({
      ...needs("operate"),
      method: "delete",
      path: PATH,
      tags: TAGS,
      summary: "Remove the limit of a kind or a queue",
      request: { query: TaskLimitQuery },
      responses: {
        200: answers("Removed, now or before.", TaskLimitRemoved),
        ...problems("INVALID_REQUEST", "NO_TASK_LIMITS", "NO_CONTROL"),
      },
    }),
    async (context) => {
      const { scope, name, reason } = context.req.valid("query");
      limitsOf(services);
      const control = controlOf(services);
      checkReason(context, "reason", reason);
      const { namespace } = callerOf(context);
      const by = byCaller(context, reason);
      const act = {
        ...by,
        namespace,
        action: "taskLimit.remove",
        target: `${scope} ${name}`,
      } as const;
      const wasDeclared = await services.budget(context).change(() =>
        control.perform(act, async ({ taskLimits }) => {
          const value = await taskLimits.remove({ namespace, scope, name });
          return { value, details: { outcome: value } };
        }),
      );
      return context.json({ scope, name, wasDeclared }, 200);
    },
  );
  otherMethods(app, PATH, "GET", "PUT", "POST", "DELETE");
}

function outcomeOf(outcome: DeclareLimitOutcome): string {
  return outcome.status === "declared" ? outcome.change : outcome.status;
}

function changeOf(outcome: DeclareLimitOutcome): "added" | "changed" | "none" {
  if (outcome.status === "failed") throw failed(outcome);
  if (outcome.status === "declared") return outcome.change;
  const detail = "a tenant may have at most 1,000 limits of tasks: remove those that none needs";
  throw tooMany("quota", detail, 60_000);
}
