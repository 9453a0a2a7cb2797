/** Operator actions on the records of `once`: each has an audit entry. */
import { createRoute } from "@hono/zod-openapi";
import type { Context } from "hono";
import {
  isOnceKey,
  OnceDeleted,
  OnceParams,
  OnceRetried,
  ReasonQuery,
} from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { byCaller, checkReason, controlOf } from "../operations/operator-action.js";
import type { AppEnv } from "../request.js";
import { needs } from "../route-rules.js";
import { type App, answers, otherMethods, problems } from "../routing.js";
import type { Services } from "../services.js";
import { onceOf } from "./routes.js";

const TAGS = ["once"];
const REQUEST = { params: OnceParams, query: ReasonQuery };
const PROBLEMS = problems("INVALID_REQUEST", "NO_ONCE", "NO_CONTROL");

export function onceActionRoutes(app: App, services: Services): void {
  app.openapi(
    createRoute({
      ...needs("operate"),
      method: "post",
      path: "/v1/once/{key}/retry",
      tags: TAGS,
      summary: "Forget the failures of a key, so that the next caller tries again",
      request: REQUEST,
      responses: { 200: answers("Forgotten, now or before.", OnceRetried), ...PROBLEMS },
    }),
    async (context) => {
      const { key } = context.req.valid("param");
      const { reason } = context.req.valid("query");
      const wasFailing = await perform(services, context, "retry", key, reason);
      return context.json({ key, wasFailing }, 200);
    },
  );
  otherMethods(app, "/v1/once/:key/retry", "POST");

  app.openapi(
    createRoute({
      ...needs("operate"),
      method: "delete",
      path: "/v1/once/{key}",
      tags: TAGS,
      summary: "Delete the record of a key, so that its work may run again",
      request: REQUEST,
      responses: { 200: answers("Deleted, now or before.", OnceDeleted), ...PROBLEMS },
    }),
    async (context) => {
      const { key } = context.req.valid("param");
      const { reason } = context.req.valid("query");
      const wasRecorded = await perform(services, context, "delete", key, reason);
      return context.json({ key, wasRecorded }, 200);
    },
  );
}

/** @returns whether there was something to change */
async function perform(
  services: Services,
  context: Context<AppEnv>,
  operation: "retry" | "delete",
  key: string,
  reason: string | undefined,
): Promise<boolean> {
  onceOf(services);
  const control = controlOf(services);
  checkReason(context, "reason", reason);
  if (!isOnceKey(key)) return false;
  const { namespace } = callerOf(context);
  const action = `once.${operation}` as const;
  const act = { ...byCaller(context, reason), namespace, action, target: key };
  return services.budget(context).change(() =>
    control.perform(act, async ({ once }) => {
      const value = await once[operation]({ namespace, key });
      return { value, details: { changed: value } };
    }),
  );
}
