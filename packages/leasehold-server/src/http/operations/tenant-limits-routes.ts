/** /v1/limits: the limits of the caller's tenant. */
import { createRoute } from "@hono/zod-openapi";
import { withoutUndefined } from "leasehold/internal";
import { BOUNDS } from "leasehold/internal/wire";
import { LimitsBody, TenantLimits } from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { limitBody } from "../request.js";
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
import { byCaller, controlOf } from "./operator-action.js";

const PATH = "/v1/limits";
const TAGS = ["limits"];

export function tenantLimitRoutes(app: App, services: Services): void {
  app.openapi(
    createRoute({
      ...needs("read"),
      method: "get",
      path: PATH,
      tags: TAGS,
      summary: "Read the tenant's own limits",
      responses: {
        200: answers("The limits. null: the server's own limit applies.", TenantLimits),
        ...problems("NO_CONTROL"),
      },
    }),
    async (context) => {
      const { limits } = controlOf(services);
      const { namespace } = callerOf(context);
      const own = await services.budget(context).read(() => limits.read(namespace));
      return context.json(own, 200);
    },
  );

  app.openapi(
    createRoute({
      ...needs("administer"),
      method: "put",
      path: PATH,
      tags: TAGS,
      summary: "Change limits; absent fields stay unchanged, null removes a limit",
      middleware: limitBody(BOUNDS.bodyBytes),
      request: jsonBody(LimitsBody),
      responses: {
        200: answers("The new limits.", TenantLimits),
        ...bodyProblems("NO_CONTROL"),
      },
    }),
    async (context) => {
      const { reason, ...change } = context.req.valid("json");
      const { namespace } = callerOf(context);
      const control = controlOf(services);
      const by = byCaller(context, reason);
      const action = { ...by, namespace, action: "limits.set" as const, target: namespace };
      const set = () =>
        control.perform(action, async ({ limits }) => {
          const value = await limits.set(namespace, defined(change));
          return { value, details: withoutUndefined(change) };
        });
      const now = await services.budget(context).change(set);
      return context.json(now, 200);
    },
  );
  otherMethods(app, PATH, "GET", "PUT");
}
