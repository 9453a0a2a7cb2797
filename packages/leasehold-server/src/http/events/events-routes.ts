import { createRoute, z } from "@hono/zod-openapi";
import { EventsHeaders, EventsQuery } from "../../protocol/index.js";
import { callerOf, covers, TASK_PREFIX } from "../auth/caller.js";
import { needs } from "../route-rules.js";
import { type App, onlyProblems, otherMethods } from "../routing.js";
import type { Services } from "../services.js";

const PATH = "/v1/events";

export const STREAM_HEADERS = {
  "content-type": "text/event-stream",
  // Compressing hosts and nginx would otherwise hold events back until a buffer is full.
  "cache-control": "no-store, no-transform",
  "x-accel-buffering": "no",
};

export function eventRoutes(app: App, services: Services): void {
  app.openapi(
    createRoute({
      ...needs("read", "waits"),
      method: "get",
      path: PATH,
      tags: ["events"],
      summary: "Stream notifications that leases or tasks may have changed",
      request: { query: EventsQuery, headers: EventsHeaders },
      responses: {
        200: {
          description:
            "Server-sent events: `resync`, `lease` and `task`; of results `resync` and `ended`.",
          content: { "text/event-stream": { schema: z.string() } },
        },
        ...onlyProblems("INVALID_REQUEST", "LIMIT_REACHED", "CLOSING", "INTERNAL"),
      },
    }),
    (context) => {
      const { of } = context.req.valid("query");
      const caller = callerOf(context);
      const lastEventId = context.req.valid("header")["last-event-id"];
      const events = services.tenants
        .of(caller.namespace)
        .stream(of ? [of] : ["leases", "tasks"], lastEventId, {
          sees: (resource) => covers(caller, resource ?? TASK_PREFIX),
          isStillValid: () => services.authenticator.isStillValid(caller),
        });
      return context.body(events, 200, STREAM_HEADERS);
    },
  );
  otherMethods(app, PATH, "GET");
}
