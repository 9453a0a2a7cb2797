/** The app as a request handler of node's HTTP server, and of the frameworks that are built on it. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { getRequestListener } from "@hono/node-server";
import { systemClock } from "leasehold/internal";
import { BUDGET_HEADER, REQUEST_ID_HEADER } from "leasehold/internal/wire";
import type { ServerApp } from "./app.js";
import { ProblemError, toResponse } from "./problems.js";

/** Node's IncomingMessage, with what frameworks add to it. */
export interface NodeRequest {
  readonly headers: object;
  /** By Express and Connect: the URL before a mount took its prefix away. */
  readonly originalUrl?: string;
  /** By body parsers: what they made of the body. */
  readonly body?: unknown;
  /** By some hosts: the bytes of the body. */
  readonly rawBody?: unknown;
}

/** Node's ServerResponse. */
export interface NodeResponse {
  readonly writableFinished: boolean;
}

/** With 10,000 connections that is at most 5,000 refusals a second, which an instance can do beside its work. */
const REFUSED_AFTER_MS = 2_000;

type Incoming = IncomingMessage & NodeRequest;

/**
 * The app for `http.createServer()`, Express, Fastify and all that have node's request and response.
 * Where a body parser was faster, its `req.body` (or `req.rawBody`) is taken. It answers whatever
 * comes, and never calls `next`.
 * @param app which stays yours to close, before the server
 */
export function nodeHandler(
  app: Pick<ServerApp, "fetch" | "basePath" | "refusal">,
): (incoming: NodeRequest, outgoing: NodeResponse) => void {
  return requestListener(app, { overrideGlobalObjects: false });
}

/**
 * @param options.overrideGlobalObjects replaces the global Request and Response by faster ones, which
 *   serve a fifth more requests; but what fetch answers is then no `instanceof Response` any more, so
 *   guests leave them alone
 */
export function requestListener(
  app: Pick<ServerApp, "fetch" | "basePath" | "refusal">,
  options: { overrideGlobalObjects: boolean },
): (incoming: NodeRequest, outgoing: NodeResponse) => void {
  const handle = getRequestListener(
    (request, { incoming }) => {
      const whole = withBody(request, incoming as Incoming);
      return whole instanceof ProblemError ? answer(whole) : app.fetch(whole);
    },
    { ...options, errorHandler: (error) => answer(malformed(error)) },
  );
  return (request, response) => {
    const incoming = request as Incoming;
    const outgoing = response as NodeResponse & ServerResponse;
    const { url = "", method = "" } = incoming;
    const chosen = incoming.headers[REQUEST_ID_HEADER];
    const requestId = typeof chosen === "string" ? chosen : undefined;
    const refusal = app.refusal?.({ method, url: incoming.originalUrl ?? url, requestId });
    if (refusal) {
      const answer = () => outgoing.writeHead(refusal.status, refusal.headers).end(refusal.body);
      systemClock.timer(refusedAfterMs(incoming.headers[BUDGET_HEADER]), answer, {
        background: true,
      });
      return;
    }
    // An app that knows its base wants to see it. The URL is read before the call returns.
    if (app.basePath) incoming.url = incoming.originalUrl ?? url;
    void handle(incoming, outgoing);
    incoming.url = url;
  };
}

/**
 * Refusals of an overloaded instance are held back for a while: who asks again at once would keep it
 * from all others, those among them who only want to renew. Within half of what the caller will wait.
 */
function refusedAfterMs(budget: string | string[] | undefined): number {
  const halfMs = Number(budget ?? Infinity) / 2;
  return halfMs < REFUSED_AFTER_MS ? halfMs : REFUSED_AFTER_MS;
}

/**
 * The request with its body from where it is now:
 *
 *   nobody has read it ─────────────▶ the wire (in chunks: through a Request that others can copy)
 *   read, and kept as it came ──────▶ rawBody
 *   read, and parsed ───────────────▶ body, as text again
 *   read, and kept nowhere we know ─▶ a problem, rather than a request without a body
 */
function withBody(request: Request, incoming: Incoming): Request | ProblemError {
  const { method } = request;
  if (method === "GET" || method === "HEAD") return request;
  const { body, rawBody } = incoming;
  if (isText(rawBody)) return copy(request, rawBody);
  if (!incoming.readableDidRead) {
    // Such a body is counted as it comes, and copying needs a Request of the platform's own.
    return "transfer-encoding" in incoming.headers ? copy(request, request.body) : request;
  }
  if (body === undefined) {
    const remedy =
      "let nodeHandler come before it, or keep what it read as req.body or req.rawBody";
    return new ProblemError("INTERNAL", `the body was read by another handler: ${remedy}`);
  }
  return copy(request, isText(body) ? body : JSON.stringify(body));
}

function copy(
  { url, method, headers, signal }: Request,
  body: NonNullable<RequestInit["body"]> | null,
): Request {
  return new Request(url, { method, headers, signal, body, duplex: "half" });
}

function isText(body: unknown): body is string | Uint8Array<ArrayBuffer> {
  return typeof body === "string" || body instanceof Uint8Array;
}

/** What never became a request of the app. */
function malformed(error: unknown): ProblemError {
  const detail = error instanceof Error ? error.message : "the request cannot be read";
  return new ProblemError("MALFORMED_REQUEST", detail);
}

/** The app numbers requests; these did not reach it. */
function answer(problem: ProblemError): Response {
  return toResponse(problem, "none");
}
