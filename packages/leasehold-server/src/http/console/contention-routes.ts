/** /v1/contention: contention for the tenant's leases, by prefix. */
import { createRoute } from "@hono/zod-openapi";
import { Contention } from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { needs } from "../route-rules.js";
import { type App, answers, onlyProblems, otherMethods } from "../routing.js";
import type { Services } from "../services.js";

const PATH = "/v1/contention";

export function contentionRoute(app: App, services: Services): void {
  app.openapi(
    createRoute({
      ...needs("readAll"),
      method: "get",
      path: PATH,
      tags: ["operator"],
      summary: "List refused acquires and renewals by prefix",
      responses: {
        200: answers("Counts of this instance, highest first.", Contention),
        ...onlyProblems("CLOSING", "OVERLOADED", "TOO_MANY_REQUESTS", "INTERNAL"),
      },
    }),
    (context) => context.json(services.contention.of(callerOf(context).namespace), 200),
  );
  otherMethods(app, PATH, "GET");
}
