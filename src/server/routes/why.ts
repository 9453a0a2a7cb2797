/** GET /api/tasks/{id}/why: for whoever asks why a task does not run. */
import { createRoute } from "@hono/zod-openapi";
import { TaskParams, Why } from "../../protocol/index.js";
import { comesBefore, explain } from "../../tasks/explain.js";
import type { TaskDetails, TaskView } from "../../tasks/index.js";
import { callerOf } from "../caller.js";
import { unknownTask } from "../problems.js";
import type { Budget } from "../request.js";
import { type App, answers, otherMethods, problems, STORE_PROBLEMS } from "../routing.js";
import type { Services } from "../services.js";

const PAGE = 200;
/** Of the pending tasks of its queue the newest so many are looked at. */
const MOST_PAGES = 5;

/** Declared before the route of one task. */
export function whyRoute(app: App, services: Services): void {
  const { tasks, env, activities } = services;
  app.openapi(
    createRoute({
      method: "get",
      path: "/api/tasks/{id}/why",
      tags: ["console"],
      summary: "Why a task is not running, or that it is",
      request: { params: TaskParams },
      responses: {
        200: answers("The most decisive reason first.", Why),
        ...problems("UNKNOWN_TASK", ...STORE_PROBLEMS),
      },
    }),
    async (context) => {
      const { id } = context.req.valid("param");
      const { namespace } = callerOf(context);
      const budget = services.budget(context);
      const task = await budget.read(() => tasks.get({ namespace, id }));
      if (!task) throw unknownTask();
      const nowMs = env.clock.wall();
      const pending = task.state === "pending";
      const reasons = explain(task, task.attempts.at(-1), {
        nowMs,
        pause: pending ? await pauseOf(services, budget, namespace, task) : null,
        claimers: activities.of(namespace).seen.claimers(),
        ...(pending
          ? await aheadOf(services, budget, namespace, task, nowMs)
          : { ahead: 0, more: false }),
      });
      return context.json({ id, state: task.state, reasons }, 200);
    },
  );
  otherMethods(app, "/api/tasks/:id/why", "GET");
}

async function pauseOf(
  { control }: Services,
  budget: Budget,
  namespace: string,
  { queue }: TaskDetails,
) {
  if (!control) return null;
  const pauses = await budget.read(() => control.pauses.list(namespace));
  return pauses.find(({ kind, name }) => kind === "queue" && name === queue) ?? null;
}

/** The newest are listed first, and those that come first are the oldest: of very many some are missed. */
async function aheadOf(
  { tasks }: Services,
  budget: Budget,
  namespace: string,
  task: TaskDetails,
  nowMs: number,
): Promise<{ readonly ahead: number; readonly more: boolean }> {
  const isAhead = (other: TaskView) =>
    Date.parse(other.scheduledAt) <= nowMs && comesBefore(other, task);
  let ahead = 0;
  let cursor: string | null | undefined;
  for (let pages = 0; pages < MOST_PAGES && cursor !== null; pages += 1) {
    const from = cursor === undefined ? {} : { cursor };
    const query = { namespace, states: ["pending"] as const, queue: task.queue, limit: PAGE };
    const page = await budget.read(() => tasks.list({ ...query, ...from }));
    ahead += page.items.filter(isAhead).length;
    cursor = page.nextCursor;
  }
  return { ahead, more: cursor !== null };
}
