import { createRoute, z } from "@hono/zod-openapi";
import {
  BUDGET_HEADER,
  PROBLEMS,
  type ProblemCode,
  REQUEST_ID_HEADER,
} from "leasehold/internal/wire";
import { ACCESS } from "./auth/access.js";
import { type App, answers, otherMethods } from "./routing.js";

const PATH = "/openapi.json";

/** What the document says besides its routes. */
export interface About {
  readonly version: string;
  /** `""`: the app is its whole origin. */
  readonly basePath: string;
  /** The server's own, of which metrics tell names. */
  readonly namespace: string;
  /** What the stores are, for people; undefined: not said. */
  readonly engine?: string | undefined;
  /** All metrics, in Prometheus's text format; undefined: nobody keeps them. */
  readonly metrics?: (() => Promise<string>) | undefined;
}

/** The description of all routes. Declared last: it is made of those before it. */
export function openApiRoute(app: App, about: About): void {
  let text: string | undefined;
  app.openAPIRegistry.registerComponent("securitySchemes", "key", {
    type: "http",
    scheme: "bearer",
    bearerFormat: "lh_<id>_<secret>",
    description: "An API key, where the server asks for one.",
  });
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
  const document = app.getOpenAPI31Document({
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
    security: [{ key: [] }],
    tags: [
      { name: "tasks", description: "Work for workers of any language." },
      { name: "generator", description: "The sample source of tasks." },
      { name: "lease service", description: "Leases as records, and who is at work." },
      { name: "locks", description: "One lock at a time, for anything that speaks HTTP." },
      { name: "leases", description: "The lease store itself, in batches." },
      { name: "operator", description: "Pauses, the audit, and where leases are contended for." },
      { name: "keys", description: "Who may do what." },
      { name: "limits", description: "How much a tenant may have." },
      { name: "console", description: "What happens, for whoever watches." },
      { name: "events", description: "What has changed, as it changes." },
      { name: "health", description: "For probes and tools." },
    ],
  });
  addAccess(document.paths ?? {});
  return document;
}

const REFUSALS: Readonly<Record<string, ProblemCode>> = {
  401: "UNAUTHENTICATED",
  403: "FORBIDDEN",
};

/** Whatever is asked for: a budget that is none, too much to do, an instance that is closing. */
const ANYWHERE: Readonly<Record<string, ProblemCode>> = {
  422: "INVALID_REQUEST",
  429: "OVERLOADED",
  503: "CLOSING",
};

/** Adds to each operation what it needs, and how any request is refused. */
function addAccess(paths: Record<string, object>): void {
  const content = {
    "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } },
  };
  const answered = (codes: Readonly<Record<string, ProblemCode>>) =>
    Object.fromEntries(
      Object.entries(codes).map(([status, code]) => {
        const description = `${code}: ${PROBLEMS[code].title}.`;
        return [status, { description, content }] as const;
      }),
    );
  const [refusals, anywhere] = [answered(REFUSALS), answered(ANYWHERE)];
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, operation] of Object.entries(methods as Record<string, Operation>)) {
      const need = ACCESS[`${method.toUpperCase()} ${path}`];
      if (need === undefined) continue;
      operation["x-needs"] = need;
      if (need === "public") operation.security = [];
      else Object.assign(operation.responses, refusals);
      operation.responses = { ...anywhere, ...operation.responses };
    }
  }
}

interface Operation {
  "x-needs"?: string;
  security?: [];
  responses: object;
}
