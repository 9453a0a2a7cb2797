/** /v1/activity and /v1/refusals: activity of this instance, for people. */
import { createRoute, z } from "@hono/zod-openapi";
import {
  ACTIVITY_TOPICS,
  ActivityQuery,
  EventsHeaders,
  Refusals,
  RefusalsQuery,
} from "../../protocol/index.js";
import { callerOf, checkResources, covers } from "../auth/caller.js";
import { needs } from "../route-rules.js";
import { type App, answers, onlyProblems, otherMethods } from "../routing.js";
import type { Services } from "../services.js";
import { STREAM_HEADERS } from "./events-routes.js";

const TAGS = ["console"];

export function activityRoutes(app: App, services: Services): void {
  app.openapi(
    createRoute({
      ...needs("read", "waits"),
      method: "get",
      path: "/v1/activity",
      tags: TAGS,
      summary: "Stream the activity of leases and tasks in this instance",
      request: { query: ActivityQuery, headers: EventsHeaders },
      responses: {
        200: {
          description: "Server-sent events: `resync` and `activity`.",
          content: { "text/event-stream": { schema: z.string() } },
        },
        ...onlyProblems("INVALID_REQUEST", "LIMIT_REACHED", "CLOSING", "INTERNAL"),
      },
    }),
    async (context) => {
      const { of, last } = context.req.valid("query");
      // They are made and sent like the items of a batch.
      await context.get("begin")(last);
      const caller = callerOf(context);
      const stream = services.tenants.of(caller.namespace).activity({
        topics: of ? [of] : ACTIVITY_TOPICS,
        last,
        lastEventId: context.req.valid("header")["last-event-id"],
        listener: {
          // Activities without a resource cover many, so they require permission to list all.
          sees: (resource) => covers(caller, resource ?? ""),
          isStillValid: () => services.authenticator.isStillValid(caller),
        },
      });
      return context.body(stream, 200, STREAM_HEADERS);
    },
  );
  otherMethods(app, "/v1/activity", "GET");

  app.openapi(
    createRoute({
      ...needs("read"),
      method: "get",
      path: "/v1/refusals",
      tags: TAGS,
      summary: "List requests of late holders that this instance refused",
      request: { query: RefusalsQuery },
      responses: {
        200: answers("Latest first. The instance keeps 500.", Refusals),
        ...onlyProblems("INVALID_REQUEST", "CLOSING", "INTERNAL"),
      },
    }),
    (context) => {
      const { prefix = "", limit } = context.req.valid("query");
      const caller = callerOf(context);
      checkResources(caller, [prefix]);
      const { recent } = services.activities.of(caller.namespace);
      const items = recent.refusals((resource) => resource.startsWith(prefix), limit);
      return context.json({ forMs: recent.forMs, items }, 200);
    },
  );
  otherMethods(app, "/v1/refusals", "GET");
}
