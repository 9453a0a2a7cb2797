import { createRoute, z } from "@hono/zod-openapi";
import { ProblemError } from "../problems.js";
import { type App, otherMethods, problems } from "../routing.js";

const PATH = "/metrics";
/** As Prometheus has it. */
const MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** @param read all metrics in Prometheus's text format; undefined where nobody keeps them */
export function metricsRoute(app: App, read: (() => Promise<string>) | undefined): void {
  app.openapi(
    createRoute({
      method: "get",
      path: PATH,
      tags: ["health"],
      summary: "What this instance measures, for Prometheus",
      responses: {
        200: {
          description: "In Prometheus's text format.",
          content: { "text/plain": { schema: z.string() } },
        },
        ...problems("NO_METRICS", "CLOSING", "INTERNAL"),
      },
    }),
    async (context) => {
      if (!read) throw new ProblemError("NO_METRICS", "start the app with metrics of its own");
      return context.text(await read(), 200, { "content-type": MEDIA_TYPE });
    },
  );
  otherMethods(app, PATH, "GET");
}
