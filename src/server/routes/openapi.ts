import { createRoute, z } from "@hono/zod-openapi";
import { BUDGET_HEADER, REQUEST_ID_HEADER } from "../../protocol/index.js";
import { type App, answers, otherMethods } from "../routing.js";

const PATH = "/openapi.json";

/** What the document says besides its routes. */
export interface About {
  readonly version: string;
  /** `""`: the app is its whole origin. */
  readonly basePath: string;
}

/** The description of all routes. Declared last: it is made of those before it. */
export function openApiRoute(app: App, about: About): void {
  let text: string | undefined;
  const route = createRoute({
    method: "get",
    path: PATH,
    tags: ["health"],
    summary: "This document",
    responses: { 200: answers("OpenAPI 3.1.", z.object({}).loose()) },
  });
  app.openAPIRegistry.registerPath(route);
  app.get(PATH, (context) => {
    text ??= JSON.stringify(describe(app, about));
    return context.body(text, 200, { "content-type": "application/json" });
  });
  otherMethods(app, PATH, "GET");
}

function describe(app: App, { version, basePath }: About): object {
  return app.getOpenAPI31Document({
    openapi: "3.1.0",
    info: {
      title: "Leasehold",
      version,
      license: { name: "MIT" },
      description: [
        "Leases with fencing tokens, and tasks that workers do under them.",
        `Send \`${BUDGET_HEADER}\` (whole milliseconds) to say how long you will wait: past it nothing is done.`,
        "A problem with status 503 or 429 means that nothing was done; with another 5xx, that it may have been.",
        `Every answer carries \`${REQUEST_ID_HEADER}\`.`,
      ].join("\n\n"),
    },
    servers: [{ url: basePath || "/" }],
    security: [],
    tags: [
      { name: "tasks", description: "Work for workers of any language." },
      { name: "generator", description: "The sample source of tasks." },
      { name: "lease service", description: "Leases as records, and who is at work." },
      { name: "locks", description: "One lock at a time, for anything that speaks HTTP." },
      { name: "leases", description: "The lease store itself, in batches." },
      { name: "events", description: "What has changed, as it changes." },
      { name: "health", description: "For probes and tools." },
    ],
  });
}
