import { createRoute, z } from "@hono/zod-openapi";
import { withoutReason } from "./problems.js";
import { needs } from "./route-rules.js";
import { type App, answers, onlyProblems, otherMethods } from "./routing.js";
import type { Services } from "./services.js";

const TAGS = ["health"];
const Ok = z.object({ status: z.literal("ok"), version: z.string() }).openapi("Health");
/** A resource that is never leased, and a task that is never added: reading them shows that the stores are available. */
const PROBE = { namespace: "default", resource: "leasehold/readyz" };

/** Rejects if a store is unavailable. */
export async function probe({ leases, tasks }: Pick<Services, "leases" | "tasks">): Promise<void> {
  const { namespace, resource } = PROBE;
  await Promise.all([leases.get([PROBE]), tasks.list({ namespace, ids: [resource], limit: 1 })]);
}

export function healthRoutes(app: App, services: Services, version: string): void {
  app.openapi(
    createRoute({
      ...needs("public", "keeps"),
      method: "get",
      path: "/healthz",
      tags: TAGS,
      summary: "Check that the process is up, without its stores",
      responses: { 200: answers("Up.", Ok) },
    }),
    (context) => context.json({ status: "ok" as const, version }, 200),
  );
  otherMethods(app, "/healthz", "GET");

  app.openapi(
    createRoute({
      ...needs("public"),
      method: "get",
      path: "/readyz",
      tags: TAGS,
      summary: "Check that the stores are available",
      responses: {
        200: answers("Ready.", Ok),
        ...onlyProblems("STORE_UNAVAILABLE", "CLOSING", "INTERNAL"),
      },
    }),
    async (context) => {
      await services
        .budget(context)
        .read(() => probe(services))
        .catch((error) => {
          throw withoutReason(error);
        });
      return context.json({ status: "ok" as const, version }, 200);
    },
  );
  otherMethods(app, "/readyz", "GET");
}
