import { createRoute, z } from "@hono/zod-openapi";
import { type Caller, callerOf, covers } from "./auth/caller.js";
import type { About } from "./openapi.js";
import { ProblemError } from "./problems.js";
import { needs } from "./route-rules.js";
import { type App, onlyProblems, otherMethods } from "./routing.js";

const PATH = "/metrics";
/** Prometheus's media type. */
const MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Lines with a label that carries a name, except the one for all other names. */
const NAMES = /^.*[{,](?:prefix|resource|election|limit)="(?!").*\n/gm;

export function metricsRoute(
  app: App,
  { metrics: read, namespace }: Pick<About, "metrics" | "namespace">,
): void {
  const latest = read && shared(read);
  app.openapi(
    createRoute({
      ...needs("scrape", "keeps"),
      method: "get",
      path: PATH,
      tags: ["health"],
      summary: "Metrics of this instance, for Prometheus",
      responses: {
        200: {
          description: "Metrics in Prometheus's text format.",
          content: { "text/plain": { schema: z.string() } },
        },
        ...onlyProblems("NO_METRICS", "CLOSING", "INTERNAL"),
      },
    }),
    async (context) => {
      if (!latest) throw new ProblemError("NO_METRICS", "this server keeps no metrics");
      const all = await latest();
      const text = seesNames(callerOf(context), namespace) ? all : all.replace(NAMES, "");
      return context.text(text, 200, { "content-type": MEDIA_TYPE });
    },
  );
  otherMethods(app, PATH, "GET");
}

/** Reads once for all who ask while a reading is under way. */
function shared<T>(read: () => Promise<T>): () => Promise<T> {
  let reading: Promise<T> | undefined;
  return () => {
    reading ??= read().finally(() => {
      reading = undefined;
    });
    return reading;
  };
}

/** These labels reveal names of the server's own namespace, so only callers that may list them all see them. */
function seesNames(caller: Caller, namespace: string): boolean {
  return caller.namespace === namespace && covers(caller, "");
}
