import { createRoute, z } from "@hono/zod-openapi";
import { type Caller, callerOf, covers } from "./auth/caller.js";
import type { About } from "./openapi.js";
import { ProblemError } from "./problems.js";
import { type App, onlyProblems, otherMethods } from "./routing.js";

const PATH = "/metrics";
/** As Prometheus has it. */
const MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Of all prefixes but the one that stands for the rest. */
const NAMES = /^.*[{,]prefix="(?!other").*\n/gm;

export function metricsRoute(
  app: App,
  { metrics: read, namespace }: Pick<About, "metrics" | "namespace">,
): void {
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
        ...onlyProblems("NO_METRICS", "CLOSING", "INTERNAL"),
      },
    }),
    async (context) => {
      if (!read) throw new ProblemError("NO_METRICS", "start the app with metrics of its own");
      const all = await read();
      const text = seesNames(callerOf(context), namespace) ? all : all.replace(NAMES, "");
      return context.text(text, 200, { "content-type": MEDIA_TYPE });
    },
  );
  otherMethods(app, PATH, "GET");
}

/** Prefixes are what names of the server's own namespace begin with: for those who may list them all. */
function seesNames(caller: Caller, namespace: string): boolean {
  return caller.namespace === namespace && covers(caller, "");
}
