/** Operator actions on tasks: on one, on many by id, or on those that match a filter. */
import { createRoute } from "@hono/zod-openapi";
import { invariant } from "leasehold/internal";
import { BOUNDS } from "leasehold/internal/wire";
import {
  AdminBatch,
  AdminOutcomes,
  BulkAnswer,
  BulkBody,
  ReasonQuery,
  StateAnswer,
  TaskParams,
} from "../../protocol/index.js";
import { toWireOutcome } from "../native/outcomes.js";
import { notAllowed } from "../problems.js";
import { limitBody } from "../request.js";
import { needs } from "../route-rules.js";
import { type App, answers, bodyProblems, jsonBody, otherMethods, problems } from "../routing.js";
import type { Services } from "../services.js";
import { runBulkAction, runTaskAction, type TaskAction } from "./task-actions.js";

const TAGS = ["tasks"];
const REFUSALS = ["UNKNOWN_TASK", "STATE_CONFLICT", "INVALID_REQUEST"] as const;

interface ActionTexts {
  readonly method: "post" | "delete";
  readonly path: string;
  readonly one: string;
  readonly many: string;
  readonly answer: string;
}

const ACTIONS: Readonly<Record<TaskAction, ActionTexts>> = {
  cancel: {
    method: "post",
    path: "/api/tasks/{id}/cancel",
    one: "Cancel a pending or running task; its holder is refused from then on",
    many: "Cancel many tasks by id",
    answer: "The new state.",
  },
  retry: {
    method: "post",
    path: "/api/tasks/{id}/retry",
    one: "Retry a dead, cancelled or expired task; make a pending one due now",
    many: "Retry many tasks by id",
    answer: "The new state.",
  },
  delete: {
    method: "delete",
    path: "/api/tasks/{id}",
    one: "Delete a task that is not running, and its attempts",
    many: "Delete many tasks that are not running, by id",
    answer: "The task's last state.",
  },
};

/** Declared before the routes of one task. */
export function taskActionRoutes(app: App, services: Services): void {
  for (const operation of ["cancel", "retry", "delete"] as const) {
    const { method, path, one, many, answer } = ACTIONS[operation];
    const limited = operation === "retry" ? (["LIMIT_REACHED"] as const) : [];
    app.openapi(
      createRoute({
        ...needs("operate"),
        method: "post",
        path: `/api/tasks/${operation}`,
        tags: TAGS,
        summary: many,
        middleware: limitBody(BOUNDS.bodyBytes),
        request: { query: ReasonQuery, ...jsonBody(AdminBatch) },
        responses: {
          200: answers("One outcome per task, in order.", AdminOutcomes),
          ...bodyProblems(...limited),
        },
      }),
      async (context) => {
        const { reason } = context.req.valid("query");
        const ids = context.req.valid("json");
        const outcomes = await runTaskAction(services, context, operation, ids, reason);
        return context.json(outcomes.map(toWireOutcome), 200);
      },
    );
    otherMethods(app, `/api/tasks/${operation}`, "POST");

    app.openapi(
      createRoute({
        ...needs("operate"),
        method,
        path,
        tags: TAGS,
        summary: one,
        request: { params: TaskParams, query: ReasonQuery },
        responses: {
          200: answers(answer, StateAnswer),
          ...problems(...limited, ...REFUSALS),
        },
      }),
      async (context) => {
        const { id } = context.req.valid("param");
        const { reason } = context.req.valid("query");
        const [outcome] = await runTaskAction(services, context, operation, [id], reason);
        invariant(outcome, "one outcome per task");
        if (outcome.status !== "ok") throw notAllowed(outcome, operation);
        return context.json({ id, state: outcome.state }, 200);
      },
    );
    // The path of delete also answers GET.
    if (method === "post") otherMethods(app, `/api/tasks/:id/${operation}`, "POST");
  }

  app.openapi(
    createRoute({
      ...needs("operate"),
      method: "post",
      path: "/api/tasks/bulk",
      tags: TAGS,
      summary: "Cancel, retry or delete all tasks that match a filter, as one operator action",
      middleware: limitBody(BOUNDS.bodyBytes),
      request: jsonBody(BulkBody),
      responses: {
        200: answers("Numbers of tasks; at most 1,000 in one request.", BulkAnswer),
        ...bodyProblems("STATE_CONFLICT", "LIMIT_REACHED", "NO_CONTROL"),
      },
    }),
    async (context) =>
      context.json(await runBulkAction(services, context, context.req.valid("json")), 200),
  );
  otherMethods(app, "/api/tasks/bulk", "POST");
}
