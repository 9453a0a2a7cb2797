/**
 * Refuses input that a route does not have. A misspelled filter would otherwise select everything, and a
 * reason in the body of a route that reads none would be missing in the audit.
 */
import { z } from "@hono/zod-openapi";
import type { Context, MiddlewareHandler } from "hono";
import { invariant } from "leasehold/internal";
import { invalid } from "./problems.js";
import type { AppEnv, BodyChunks, Connection } from "./request.js";
import { routeOf } from "./route-rules.js";
import type { App } from "./routing.js";

/** Probes and scrapers may send a query; an answer of 422 to a probe would have a healthy server restarted. */
const PROBED = new Set(["/healthz", "/readyz", "/metrics"]);
const LONGEST_EMPTY_BODY = 64;

interface Input {
  /** The names of the query parameters. */
  readonly query: readonly string[];
  readonly hasBody: boolean;
}

/** @param app its routes may be declared later */
export function refusesUnusedInput(app: App): MiddlewareHandler<AppEnv> {
  let known: ReadonlyMap<string, Input> | undefined;
  return async (context, next) => {
    const { raw, path } = context.req;
    const sent = raw.url.includes("?") ? Object.keys(context.req.queries()) : [];
    const hasBody = mayHaveBody(context);
    if ((sent.length > 0 || hasBody) && !PROBED.has(path)) {
      known ??= inputsOf(app);
      // Paths without a route and other methods get a problem of their own.
      const input = known.get(routeOf(context) ?? "");
      if (input) checkQuery(sent, input);
      // A route with a body reads it itself: touched here, node's adapter would make a whole Request of the platform.
      const body = input && hasBody && !input.hasBody ? bodyOf(context) : null;
      if (input && body) await context.get("arriving")(() => checkNoBody(body, input));
    }
    return next();
  };
}

function checkQuery(sent: readonly string[], { query }: Input): void {
  const unknown = sent.filter((name) => !query.includes(name));
  if (unknown.length === 0) return;
  const has = query.length > 0 ? `whose parameters are ${query.join(", ")}` : "which has none";
  const problem = `is not a query parameter of this route, ${has}`;
  throw invalid(unknown.map((path) => ({ path, problem })));
}

/**
 * By the headers alone: to read the body stream of a request without a body would cost each release. A Request never
 * carries the body of a GET or HEAD, so the host of the app passes it.
 */
function mayHaveBody({ env, req: { raw } }: Context<AppEnv>): boolean {
  if (raw.method === "GET" || raw.method === "HEAD") {
    const { bodyOfGet }: Partial<Connection> = env ?? {};
    return typeof bodyOfGet === "function";
  }
  const declared = raw.headers.get("content-length");
  if (declared !== null) return Number(declared) > 0;
  return raw.headers.has("transfer-encoding") || raw.headers.has("content-type");
}

/** To be read at most once. */
function bodyOf({ env, req: { raw } }: Context<AppEnv>): BodyChunks {
  const { bodyOfGet }: Partial<Connection> = env ?? {};
  return bodyOfGet ? bodyOfGet() : chunksOf(raw.body);
}

/** Does not cancel the stream when its reader stops: node's handler reads the rest. */
async function* chunksOf(body: Request["body"]): BodyChunks {
  const reader = body?.getReader();
  for (;;) {
    const chunk = await reader?.read();
    if (!chunk?.value) return;
    yield chunk.value;
  }
}

/** Many clients send `{}`, or a type without a body: neither says anything. */
async function checkNoBody(body: BodyChunks, { query }: Input): Promise<void> {
  const text = (await startOf(body)).trim();
  if (text === "" || /^\{\s*\}$/.test(text)) return;
  const instead = query.includes("reason") ? ": send the reason as ?reason=" : "";
  throw invalid([{ path: "", problem: `must be empty, because this route takes none${instead}` }]);
}

/** The beginning of a body: longer ones are not `{}`, and need not be read whole. */
async function startOf(body: BodyChunks): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true });
    if (text.length > LONGEST_EMPTY_BODY) break;
  }
  return text;
}

/** The input of each route, in the spelling of {@link routeOf}. */
function inputsOf(app: App): Map<string, Input> {
  const routes = app.openAPIRegistry.definitions.flatMap((definition) =>
    definition.type === "route" ? [definition.route] : [],
  );
  return new Map(
    routes.map(({ method, path, request }) => {
      const query: unknown = request?.query;
      invariant(query === undefined || query instanceof z.ZodObject, "a query is an object");
      return [
        `${method.toUpperCase()} ${path}`,
        { query: query ? Object.keys(query.shape) : [], hasBody: request?.body !== undefined },
      ];
    }),
  );
}
