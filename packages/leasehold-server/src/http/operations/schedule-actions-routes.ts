/** Operator actions on schedules: each has an audit entry. */
import { createRoute } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { By, RunNowOutcome, ScheduleStore } from "leasehold/internal";
import {
  isScheduleName,
  ReasonQuery,
  RunScheduleQuery,
  ScheduleParams,
  SchedulePaused,
  ScheduleRemoved,
  ScheduleResumed,
  ScheduleRun,
} from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { schedulesOf, unknownSchedule } from "../native/schedules-routes.js";
import { failed } from "../problems.js";
import type { AppEnv } from "../request.js";
import { needs } from "../route-rules.js";
import { type App, answers, otherMethods, problems } from "../routing.js";
import type { Services } from "../services.js";
import { byCaller, checkReason, controlOf } from "./operator-action.js";

const TAGS = ["schedules"];
const REQUEST = { params: ScheduleParams, query: ReasonQuery };
const PROBLEMS = problems("INVALID_REQUEST", "UNKNOWN_SCHEDULE", "NO_SCHEDULES", "NO_CONTROL");

type Actors = Pick<ScheduleStore, "pause" | "resume" | "remove" | "runNow">;
interface Key {
  readonly namespace: string;
  readonly name: string;
}

export function scheduleActionRoutes(app: App, services: Services): void {
  const path = <Verb extends string>(verb: Verb) => `/v1/schedules/{name}/${verb}` as const;

  app.openapi(
    createRoute({
      ...needs("operate"),
      method: "post",
      path: path("pause"),
      tags: TAGS,
      summary: "Pause a schedule, whatever programs declare",
      request: REQUEST,
      responses: { 200: answers("Paused, now or before.", SchedulePaused), ...PROBLEMS },
    }),
    async (context) => {
      const { name } = context.req.valid("param");
      const { reason } = context.req.valid("query");
      const change = await perform(services, context, "pause", reason, (actors, key, by) =>
        actors.pause({ ...key, by: by.claimedActor ?? by.actor, reason: by.reason }),
      );
      if (change === "unknown") throw unknownSchedule();
      return context.json({ name, wasRunning: change === "changed" }, 200);
    },
  );
  otherMethods(app, "/v1/schedules/:name/pause", "POST");

  app.openapi(
    createRoute({
      ...needs("operate"),
      method: "post",
      path: path("resume"),
      tags: TAGS,
      summary: "Resume a paused schedule, without the fire times of its pause",
      request: REQUEST,
      responses: { 200: answers("Resumed, now or before.", ScheduleResumed), ...PROBLEMS },
    }),
    async (context) => {
      const { name } = context.req.valid("param");
      const { reason } = context.req.valid("query");
      const change = await perform(services, context, "resume", reason, (actors, key) =>
        actors.resume(key),
      );
      if (change === "unknown") throw unknownSchedule();
      return context.json({ name, wasPaused: change === "changed" }, 200);
    },
  );
  otherMethods(app, "/v1/schedules/:name/resume", "POST");

  app.openapi(
    createRoute({
      ...needs("operate"),
      method: "post",
      path: path("run"),
      tags: TAGS,
      summary: "Enqueue a task of a schedule now, paused or not",
      request: { params: ScheduleParams, query: RunScheduleQuery },
      responses: {
        200: answers("The task. The fire times stay as they are.", ScheduleRun),
        ...PROBLEMS,
        ...problems("LIMIT_REACHED"),
      },
    }),
    async (context) => {
      const { name } = context.req.valid("param");
      const { reason, taskId = services.newTaskId() } = context.req.valid("query");
      const outcome = await withQuota(services, context, taskId, () =>
        perform(services, context, "run", reason, (actors, key) =>
          actors.runNow({ ...key, taskId }),
        ),
      );
      if (outcome === "unknown" || outcome.status === "unknown") throw unknownSchedule();
      if (outcome.status === "failed") throw failed(outcome);
      return context.json({ name, taskId: outcome.id }, 200);
    },
  );
  otherMethods(app, "/v1/schedules/:name/run", "POST");

  app.openapi(
    createRoute({
      ...needs("operate"),
      method: "delete",
      path: "/v1/schedules/{name}",
      tags: TAGS,
      summary: "Remove a schedule that no program declares any more",
      request: REQUEST,
      responses: {
        200: answers("Removed, now or before. Its tasks stay.", ScheduleRemoved),
        ...problems("INVALID_REQUEST", "NO_SCHEDULES", "NO_CONTROL"),
      },
    }),
    async (context) => {
      const { name } = context.req.valid("param");
      const { reason } = context.req.valid("query");
      const removed = await perform(services, context, "remove", reason, (actors, key) =>
        actors.remove(key),
      );
      return context.json({ name, wasDeclared: removed === true }, 200);
    },
  );
}

/** @returns `unknown` for a name that no schedule can have; nothing is done then */
async function perform<T>(
  services: Services,
  context: Context<AppEnv>,
  verb: "pause" | "resume" | "run" | "remove",
  reason: string | undefined,
  work: (actors: Actors, key: Key, by: By) => Promise<T>,
): Promise<T | "unknown"> {
  schedulesOf(services);
  const control = controlOf(services);
  checkReason(context, "reason", reason);
  const name = context.req.param("name") ?? "";
  if (!isScheduleName(name)) return "unknown";
  const { namespace } = callerOf(context);
  const by = byCaller(context, reason);
  const act = { ...by, namespace, action: `schedule.${verb}` as const, target: name };
  return services.budget(context).change(() =>
    control.perform(act, async ({ schedules }) => {
      const value = await work(schedules, { namespace, name }, by);
      return { value, details: detailsOf(value) };
    }),
  );
}

/** Runs a call that makes the task, with quota for it, which is returned if it makes none. */
async function withQuota(
  services: Services,
  context: Context<AppEnv>,
  taskId: string,
  run: () => Promise<RunNowOutcome | "unknown">,
): Promise<RunNowOutcome | "unknown"> {
  await services.reserveQuota(context, "tasks", [taskId]);
  let isMade = false;
  try {
    const outcome = await run();
    isMade = outcome !== "unknown" && outcome.status === "enqueued";
    return outcome;
  } finally {
    if (!isMade) services.returnTasks(context, 1);
  }
}

/** For the audit. */
function detailsOf(value: unknown): object {
  if (typeof value !== "object" || value === null) return { outcome: value };
  if ("id" in value) return { taskId: value.id };
  return "status" in value ? { outcome: value.status } : {};
}
