/** The app as a request handler for node's HTTP server and the frameworks built on it. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { getRequestListener } from "@hono/node-server";
import type { Clock } from "leasehold";
import { systemClock } from "leasehold/internal";
import { BUDGET_HEADER, REQUEST_ID_HEADER } from "leasehold/internal/wire";
import type { ServerApp } from "./app-options.js";
import { networkOf } from "./auth/network-of.js";
import { certificateOf } from "./client-certificates.js";
import { Buckets } from "./limits/buckets.js";
import { RequestTurns } from "./limits/request-turns.js";
import { NodeAnswer } from "./node-answer.js";
import { ProblemError, refusalOf, toResponse } from "./problems.js";
import type { BodyChunks } from "./request.js";

/** Node's IncomingMessage with the properties that frameworks add. */
export interface NodeRequest {
  readonly headers: object;
  /** Set by Express and Connect: the URL before a mount stripped its prefix. */
  readonly originalUrl?: string;
  /** Set by body parsers: the parsed body. */
  readonly body?: unknown;
  /** Set by some hosts: the bytes of the body. */
  readonly rawBody?: unknown;
}

/** Node's ServerResponse. */
export interface NodeResponse {
  readonly writableFinished: boolean;
}

/** With 10,000 connections this makes at most 5,000 refusals per second, which an instance can afford. */
const REFUSED_AFTER_MS = 2_000;

/**
 * How many requests of one address without a caller are answered at once. Refusals, whatever their status: enough for
 * programs that are set up wrongly. Probes have their own. A caller beyond it is kept waiting, as one that asks at full
 * speed is.
 */
const PROMPT = { refusals: { perSecond: 200 }, probes: { perSecond: 1_000 } };
/**
 * What a small answer to a request without a caller costs, in items: ten are sent in each turn of the event loop. Those that
 * were kept waiting end together, and thousands in one turn would take a second, in which nothing is renewed.
 */
const SMALL_WORK = 10;
/**
 * What is public and no probe has up to hundreds of KB: two of it are sent in each period, in order, 200 in a second. That is
 * enough for many browsers that load the console, and what thousands of clients ask for at once is written in many turns.
 */
const FILE_WORK = 50;
const FILE_PERIOD_MS = 10;

const FRAGMENT = new ProblemError("MALFORMED_REQUEST", "the request target must not contain #");
const HOSTS = new ProblemError("MALFORMED_REQUEST", "the request has more than one header Host");
/** Proxies admit 100 or so. Node keeps some 1,000, and drops the rest unseen, such as those that a proxy has added. */
const MAX_HEADERS = 200;
const HEADERS = new ProblemError(
  "MALFORMED_REQUEST",
  `the request has more than ${MAX_HEADERS} headers`,
);
const CODING = new ProblemError(
  "MALFORMED_REQUEST",
  "the only transfer coding that this server knows is chunked",
);

type Incoming = IncomingMessage & NodeRequest;

interface RequestListenerOptions {
  readonly overrideGlobalObjects: boolean;
  readonly clock?: Clock;
  readonly onAnswer?: (outgoing: NodeResponse, hadCaller: boolean) => void;
  readonly onBody?: (outgoing: NodeResponse) => void;
}

/**
 * The app for `http.createServer()`, Express, Fastify and other hosts with node's request and response.
 * If a body parser has already read the body, it uses `req.body` or `req.rawBody`. It answers every
 * request and never calls `next`.
 * @param app the caller closes it, before the server
 * @example
 * ```ts
 * import { createServer } from "node:http";
 * import { openStores } from "leasehold";
 * import { createApp, nodeHandler } from "leasehold-server";
 *
 * const stores = await openStores("memory:");
 * const app = createApp({ ...stores, version: "1.0.0" });
 * const server = createServer(nodeHandler(app)).listen(0);
 * await app.close();
 * server.close();
 * await stores.close();
 * ```
 */
export function nodeHandler(
  app: Pick<ServerApp, "fetch" | "basePath" | "refusal">,
): (incoming: NodeRequest, outgoing: NodeResponse) => void {
  return requestListener(app, { overrideGlobalObjects: false });
}

/**
 * @param options.overrideGlobalObjects replaces the global Request and Response with faster ones, which
 *   serve a fifth more requests. The results of the global fetch are then no longer `instanceof
 *   Response`, so an app inside another host must not do this
 * @param options.onAnswer receives the response to each request that the app has answered, before it is sent, and whether
 *   the request had a caller
 * @param options.onBody receives the response to each request whose body is about to be read: its caller is known
 */
export function requestListener(
  app: Pick<ServerApp, "fetch" | "basePath" | "refusal">,
  { onAnswer, onBody, clock = systemClock, ...options }: RequestListenerOptions,
): (incoming: NodeRequest, outgoing: NodeResponse) => void {
  const elapsed = (ms: number) =>
    new Promise<void>((resolve) => clock.timer(ms, resolve, { background: true }));
  const prompt = new Buckets(clock);
  /** Whether this address may get another such answer at once. */
  const isPrompt = ({ socket }: IncomingMessage, what: keyof typeof PROMPT) =>
    prompt.take(`${what} ${networkOf(socket.remoteAddress ?? "")}`, PROMPT[what]) === 0;
  const turns = new RequestTurns(clock);
  const files = new RequestTurns(clock, () => elapsed(FILE_PERIOD_MS));
  const late = async (incoming: IncomingMessage) => {
    await elapsed(refusedAfterMs(incoming.headers[BUDGET_HEADER]));
  };
  const lateInTurn = async (incoming: IncomingMessage) => {
    await late(incoming);
    await turns.small("answers", SMALL_WORK);
  };
  const inOrder = async ({ status }: Response, incoming: IncomingMessage) => {
    // The query does not count: the console's files ignore it.
    const isProbe = /^[^?]*\/(healthz|readyz)(\?|$)/.test(incoming.url ?? "");
    if (status < 400 && !isProbe) {
      const { socket } = incoming;
      return files.small("files", FILE_WORK, () => socket.destroyed);
    }
    if (!isPrompt(incoming, status < 400 ? "probes" : "refusals")) await late(incoming);
    return turns.small("answers", SMALL_WORK);
  };
  const handle = getRequestListener(
    async (request, { incoming, outgoing }) => {
      const whole = withBody(request, incoming as Incoming);
      if (whole instanceof ProblemError) return answerTo(whole);
      const { socket } = incoming;
      const { remoteAddress } = socket;
      const answer = new NodeAnswer(outgoing as ServerResponse, socket);
      const bodyOfGet = bodyReaderOfGet(incoming as Incoming);
      let hadCaller = false;
      const noteCaller = () => {
        hadCaller = true;
      };
      const certificate = certificateOf(socket);
      const connection = { remoteAddress, certificate, answer, bodyOfGet, noteCaller };
      const reading = onBody && { onBody: () => onBody(outgoing) };
      const response = await app.fetch(whole, reading ? { ...connection, ...reading } : connection);
      if (!hadCaller) await inOrder(response, incoming as IncomingMessage);
      onAnswer?.(outgoing, hadCaller);
      return response;
    },
    { ...options, errorHandler: (error) => answerTo(malformed(error)) },
  );
  return (request, response) => {
    const incoming = request as Incoming;
    const outgoing = response as NodeResponse & ServerResponse;
    const { url = "", method = "" } = incoming;
    const chosen = incoming.headers[REQUEST_ID_HEADER];
    const requestId = typeof chosen === "string" ? chosen : undefined;
    // An app with a base path needs the whole URL.
    const target = app.basePath ? (incoming.originalUrl ?? url) : url;
    const problem = problemOfHead(incoming, target);
    if (problem) {
      const { status, headers, body } = refusalOf(problem, "none");
      // Proxies before this server may see another end of the request.
      outgoing.shouldKeepAlive = false;
      const answer = () => outgoing.writeHead(status, headers).end(body);
      if (isPrompt(incoming, "refusals")) answer();
      else void lateInTurn(incoming).then(answer);
      return;
    }
    const refusal = app.refusal?.({ method, url: target, requestId });
    if (refusal) {
      const answer = () => outgoing.writeHead(refusal.status, refusal.headers).end(refusal.body);
      void lateInTurn(incoming).then(answer);
      return;
    }
    outgoing.once("close", () => discardRest(incoming));
    // The call reads it before it returns.
    incoming.url = target;
    void handle(incoming, outgoing);
    incoming.url = url;
  };
}

/** What Node's parser admits, and other servers and proxies understand in another way. */
function problemOfHead({ headers, rawHeaders }: Incoming, target: string): ProblemError | null {
  // URLs end their path there.
  if (target.includes("#")) return FRAGMENT;
  // Names and values.
  if (rawHeaders.length > MAX_HEADERS * 2) return HEADERS;
  // Node keeps the first one.
  const hosts = rawHeaders.filter((name, at) => at % 2 === 0 && /^host$/i.test(name));
  if (hosts.length > 1) return HOSTS;
  const coding = headers["transfer-encoding"];
  if (coding !== undefined && coding.trim().toLowerCase() !== "chunked") return CODING;
  return null;
}

/**
 * How long to delay the refusals of an overloaded instance, and those of many callers without a valid key: clients
 * that retry at once would crowd out all others, renewals included. At most half of the time that the caller waits.
 */
function refusedAfterMs(budget: string | string[] | undefined): number {
  const halfMs = Number(budget ?? Infinity) / 2;
  return halfMs < REFUSED_AFTER_MS ? halfMs : REFUSED_AFTER_MS;
}

/**
 * The request with its body from its current location:
 *
 *   not read yet ───────────────────▶ the connection (if chunked: through a Request that can be copied)
 *   read, and kept unchanged ───────▶ rawBody
 *   read, and parsed ───────────────▶ body, serialized again
 *   read, and kept nowhere known ───▶ a problem, rather than a request without a body
 */
function withBody(request: Request, incoming: Incoming): Request | ProblemError {
  const { method } = request;
  if (method === "GET" || method === "HEAD") return request;
  const { body, rawBody } = incoming;
  if (isText(rawBody)) return copy(request, rawBody);
  if (!incoming.readableDidRead) {
    // A chunked body is counted while it is read, and copying needs a Request of the platform.
    return "transfer-encoding" in incoming.headers ? copy(request, request.body) : request;
  }
  if (body === undefined) {
    const remedy = "put nodeHandler before it, or keep the body as req.body or req.rawBody";
    return new ProblemError("INTERNAL", `the body was read by another handler: ${remedy}`);
  }
  return copy(request, isText(body) ? body : JSON.stringify(body));
}

/**
 * Discards what was not read of the body, after which the next request of the connection comes. A Request whose body
 * is not read stops the connection once it has 64 KiB of it; getRequestListener would then close it half a second later.
 */
function discardRest(incoming: Incoming): void {
  if (incoming.readableEnded || incoming.destroyed) return;
  incoming.removeAllListeners("data");
  incoming.resume();
}

/** Undefined unless the request is a GET or HEAD that has a body by its headers. */
function bodyReaderOfGet(incoming: Incoming): (() => BodyChunks) | undefined {
  const { method, headers } = incoming;
  if (method !== "GET" && method !== "HEAD") return undefined;
  const length = headers["content-length"];
  const hasBody = "transfer-encoding" in headers || (length !== undefined && Number(length) > 0);
  return hasBody ? () => bodyOfGet(incoming) : undefined;
}

/** The body of a GET from its current location, as {@link withBody} finds others. */
async function* bodyOfGet(incoming: Incoming): BodyChunks {
  const { body, rawBody } = incoming;
  const parsed = isText(rawBody) ? rawBody : body;
  if (incoming.readableDidRead) {
    if (parsed === undefined) return;
    const text = isText(parsed) ? parsed : JSON.stringify(parsed);
    yield typeof text === "string" ? new TextEncoder().encode(text) : text;
    return;
  }
  try {
    yield* incoming.iterator({ destroyOnReturn: false }) as BodyChunks;
  } finally {
    // Discards the rest: the next request of the connection comes after it.
    incoming.resume();
  }
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

/** The problem of a request that could not be parsed. */
function malformed(error: unknown): ProblemError {
  const detail = error instanceof Error ? error.message : "the request cannot be read";
  return new ProblemError("MALFORMED_REQUEST", detail);
}

/** Without a request id: the app draws it, and these requests did not reach the app. */
function answerTo(problem: ProblemError): Response {
  return toResponse(problem, "none");
}
