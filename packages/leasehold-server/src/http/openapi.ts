import { createRoute, z } from "@hono/zod-openapi";
import { invariant } from "leasehold/internal";
import {
  ACTOR_HEADER,
  BUDGET_HEADER,
  PROBLEMS,
  type ProblemCode,
  REQUEST_ID_HEADER,
} from "leasehold/internal/wire";
import { needs, ruleOf } from "./route-rules.js";
import { type App, answers, otherMethods } from "./routing.js";

const PATH = "/openapi.json";

/** Properties of the server that the document and some routes show. */
export interface About {
  readonly version: string;
  /** `""`: the app is the whole origin. */
  readonly basePath: string;
  /** The server's own namespace, whose names appear in metrics. */
  readonly namespace: string;
  /** Name of the stores' engine, for people; undefined: not shown. */
  readonly engine?: string | undefined;
  /** Returns all metrics in Prometheus's text format; undefined: none are kept. */
  readonly metrics?: (() => Promise<string>) | undefined;
}

/** Serves the description of all routes. Declared last: it covers the routes before it. */
export function openApiRoute(app: App, about: About): void {
  // Bytes, because node copies text for each answer, and keeps it until it is read.
  let bytes: Uint8Array<ArrayBuffer> | undefined;
  app.openAPIRegistry.registerComponent("securitySchemes", "key", {
    type: "http",
    scheme: "bearer",
    bearerFormat: "lh_<id>_<secret>",
    description: "An API key, if the server requires one.",
  });
  const route = createRoute({
    ...needs("public"),
    method: "get",
    path: PATH,
    tags: ["health"],
    summary: "This document",
    responses: { 200: answers("OpenAPI 3.1.", z.object({}).loose()) },
  });
  app.openAPIRegistry.registerPath(route);
  app.get(PATH, (context) => {
    bytes ??= new TextEncoder().encode(JSON.stringify(describe(app, about)));
    return context.body(bytes, 200, { "content-type": "application/json" });
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
        "Leases with fencing tokens, and tasks that workers run under leases.",
        `Send \`${ACTOR_HEADER}\` (percent-encoded) with operator actions to state who you are: the audit keeps it as \`claimedActor\`, beside the actor that your key proves.`,
        `Send \`${BUDGET_HEADER}\` (whole milliseconds) to state how long you wait: after that time the server does not start the work.`,
        "A problem with status 503 or 429 means that nothing was done. After another 5xx, the request may have been carried out.",
        `Every response carries \`${REQUEST_ID_HEADER}\`.`,
      ].join("\n\n"),
    },
    servers: [{ url: basePath || "/" }],
    security: [{ key: [] }],
    tags: [
      { name: "tasks", description: "Tasks for workers in any language." },
      { name: "generator", description: "The sample generator of tasks." },
      { name: "lease service", description: "Leases as records, and the live workers." },
      { name: "locks", description: "One lock per request, for any HTTP client." },
      { name: "leases", description: "The lease store, in batches." },
      { name: "schedules", description: "Tasks at given times, one for each fire time." },
      { name: "once", description: "Work that succeeds at most once, by its key." },
      { name: "operator", description: "Pauses, the audit, and contention by prefix." },
      { name: "keys", description: "API keys and their roles." },
      { name: "limits", description: "Limits of a tenant." },
      { name: "console", description: "Activity and statistics, for people." },
      { name: "events", description: "Notifications of changes." },
      { name: "health", description: "Health checks, metrics and this document." },
    ],
  });
  addAccess(document.paths ?? {});
  allowNulls(document);
  return document;
}

/**
 * A schema that is named elsewhere, or null: the generator writes both into `allOf`, and the named one excludes null.
 * @param value a part of the document, which is changed
 */
function allowNulls(value: unknown): void {
  if (typeof value !== "object" || value === null) return;
  const schema = value as { allOf?: object[] };
  const [named, own, ...rest] = schema.allOf ?? [];
  const type: unknown = own && Reflect.get(own, "type");
  if (named && "$ref" in named && own && Array.isArray(type) && type.includes("null")) {
    const { description } = own as { description?: string };
    invariant(rest.length === 0, "the generator writes the name, and what differs");
    delete schema.allOf;
    Object.assign(schema, {
      anyOf: [named, { type: "null" }],
      ...(description && { description }),
    });
  }
  for (const part of Object.values(value)) allowNulls(part);
}

const REFUSALS: Readonly<Record<string, ProblemCode>> = {
  401: "UNAUTHENTICATED",
  403: "FORBIDDEN",
};

/** Any request can get these: an invalid budget, an overloaded instance, a closing instance. */
const ANYWHERE: Readonly<Record<string, ProblemCode>> = {
  422: "INVALID_REQUEST",
  429: "OVERLOADED",
  503: "CLOSING",
};

/** Adds the required access and the common refusals to each operation. */
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
  for (const methods of Object.values(paths)) {
    for (const operation of Object.values(methods as Record<string, Operation>)) {
      const { need, urgency } = ruleOf(operation);
      if (need === undefined) continue;
      if (urgency === "demands") delete operation["x-urgency"];
      if (need === "public") operation.security = [];
      else Object.assign(operation.responses, refusals);
      operation.responses = { ...anywhere, ...operation.responses };
    }
  }
}

interface Operation {
  "x-urgency"?: string;
  security?: [];
  responses: object;
}
