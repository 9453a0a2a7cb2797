/** /v1/activity and /v1/refusals: what happens through this instance, for people to watch. */
import { createRoute, z } from "@hono/zod-openapi";
import {
  ACTIVITY_TOPICS,
  ActivityQuery,
  EventsHeaders,
  Refusals,
  RefusalsQuery,
} from "../../protocol/index.js";
import { callerOf, checkResources, covers } from "../auth/caller.js";
import { type App, answers, onlyProblems, otherMethods } from "../routing.js";
import type { Services } from "../services.js";
import { STREAM_HEADERS } from "./events-routes.js";

const TAGS = ["console"];

export function activityRoutes(app: App, services: Services): void {
  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/activity",
      tags: TAGS,
      summary: "What happens to leases and tasks through this instance, as it happens",
      request: { query: ActivityQuery, headers: EventsHeaders },
      responses: {
        200: {
          description: "Server-sent events: `resync` and `activity`.",
          content: { "text/event-stream": { schema: z.string() } },
        },
        ...onlyProblems("INVALID_REQUEST", "LIMIT_REACHED", "CLOSING", "INTERNAL"),
      },
    }),
    (context) => {
      const { of, last } = context.req.valid("query");
      const caller = callerOf(context);
      const stream = services.tenants.of(caller.namespace).activity({
        topics: of ? [of] : ACTIVITY_TOPICS,
        last,
        lastEventId: context.req.valid("header")["last-event-id"],
        listener: {
          // What tells of many is for those who may list them all.
          sees: (resource) => covers(caller, resource ?? ""),
          holds: () => services.authenticator.holds(caller),
        },
      });
      return context.body(stream, 200, STREAM_HEADERS);
    },
  );
  otherMethods(app, "/v1/activity", "GET");

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/refusals",
      tags: TAGS,
      summary: "Late holders that this instance has refused: renewals, releases, reports of tasks",
      request: { query: RefusalsQuery },
      responses: {
        200: answers("The latest first; 500 are kept.", Refusals),
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
