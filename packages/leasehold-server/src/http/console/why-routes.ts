/** GET /api/tasks/{id}/why: why a task does not run. */
import { createRoute } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { TaskDetails } from "leasehold/internal";
import { comesBefore, explain } from "leasehold/internal";
import { TaskParams, Why } from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { unknownTask } from "../problems.js";
import type { AppEnv, Budget } from "../request.js";
import { needs } from "../route-rules.js";
import { type App, answers, otherMethods, problems } from "../routing.js";
import type { Services } from "../services.js";

/** Declared before the route of one task. */
export function whyRoute(app: App, services: Services): void {
  const { tasks, env, activities } = services;
  app.openapi(
    createRoute({
      ...needs("readTasks"),
      method: "get",
      path: "/api/tasks/{id}/why",
      tags: ["console"],
      summary: "Explain why a task is not running",
      request: { params: TaskParams },
      responses: {
        200: answers("Most decisive reason first.", Why),
        ...problems("UNKNOWN_TASK"),
      },
    }),
    async (context) => {
      const { id } = context.req.valid("param");
      const { namespace } = callerOf(context);
      const budget = services.budget(context);
      const task = await services.page(context, 1, () => tasks.get({ namespace, id }));
      if (!task) throw unknownTask();
      const nowMs = env.clock.wall();
      const pending = task.state === "pending";
      const reasons = explain(task, task.attempts.at(-1), {
        nowMs,
        pause: pending ? await pauseOf(services, context, namespace, task) : null,
        limits: pending ? await limitsOn(services, context, namespace, task) : [],
        blocked: pending ? await blockedOf(services, budget, namespace, task) : null,
        claimers: activities.of(namespace).recent.claimers(),
        ...(pending
          ? await aheadOf(services, context, namespace, task, nowMs)
          : { ahead: 0, more: false }),
      });
      return context.json({ id, state: task.state, reasons }, 200);
    },
  );
  otherMethods(app, "/api/tasks/:id/why", "GET");
}

async function pauseOf(
  services: Services,
  context: Context<AppEnv>,
  namespace: string,
  { queue }: TaskDetails,
) {
  const { control } = services;
  if (!control) return null;
  const pauses = await services.page(context, 1, () => control.pauses.list(namespace));
  return pauses.find(({ kind, name }) => kind === "queue" && name === queue) ?? null;
}

async function blockedOf(
  { tasks }: Services,
  budget: Budget,
  namespace: string,
  { queue, kind, concurrency }: TaskDetails,
) {
  if (!concurrency) return null;
  const only = { queue, kind, key: concurrency.key };
  const keys = await budget.read(async () => tasks.blockedKeys?.({ namespace, only, limit: 1 }));
  return keys?.[0] ?? null;
}

async function limitsOn(
  services: Services,
  context: Context<AppEnv>,
  namespace: string,
  { queue, kind }: TaskDetails,
) {
  const limits = await services.page(context, 1, async () =>
    services.tasks.limits?.list(namespace),
  );
  return (limits ?? []).filter(({ scope, name }) => name === (scope === "kind" ? kind : queue));
}

/** Counts tasks ahead of this one, as of a few seconds ago. */
async function aheadOf(
  services: Services,
  context: Context<AppEnv>,
  namespace: string,
  task: TaskDetails,
  nowMs: number,
): Promise<{ readonly ahead: number; readonly more: boolean }> {
  const key = { namespace, queue: task.queue };
  const read = () => services.queued.of(key);
  const { tasks, more } = await services.scan(context, read);
  // The list is newest first. Without the task itself, it is of older tasks only, or of newer ones only.
  const own = tasks.findIndex(({ id }) => id === task.id);
  const isOlder = (index: number) => (own < 0 ? !more : index > own);
  const ahead = tasks.filter(
    (other, index) =>
      Date.parse(other.scheduledAt) <= nowMs && comesBefore(other, task, isOlder(index)),
  ).length;
  return { ahead, more };
}
