/** /v1/contention: where the tenant's leases are contended for. */
import { createRoute } from "@hono/zod-openapi";
import { Contention } from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { type App, answers, onlyProblems, otherMethods } from "../routing.js";
import type { Services } from "../services.js";

const PATH = "/v1/contention";

export function contentionRoute(app: App, services: Services): void {
  app.openapi(
    createRoute({
      method: "get",
      path: PATH,
      tags: ["operator"],
      summary: "Acquires that met a holder, and renewals that were refused, by prefix",
      responses: {
        200: answers("As this instance has seen it; most first.", Contention),
        ...onlyProblems("CLOSING", "OVERLOADED", "TOO_MANY_REQUESTS", "INTERNAL"),
      },
    }),
    (context) => context.json(services.contention.of(callerOf(context).namespace), 200),
  );
  otherMethods(app, PATH, "GET");
}
