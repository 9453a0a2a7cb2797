/**
 * The guard in front of HTTP handlers. A request carries its token in the header `Fencing-Token`. The guard
 * returns 412 for a stale token and 428 if the token is missing. While a handler works, requests of newer
 * holders for the same resource wait until its response is sent or its client disconnects.
 */
import { guardedLogger, type Logger, warningLogger } from "../env/index.js";
import {
  checkFunction,
  checkNotPromise,
  InvalidOptionError,
  kindOf,
  StaleTokenError,
} from "../lease/index.js";
import type { Guard } from "./guard.js";

/**
 * The request header that carries `lease.token`, as a decimal number.
 * @example
 * ```ts
 * import { connect } from "leasehold";
 * import { FENCING_HEADER } from "leasehold/fence";
 *
 * const leasehold = await connect("memory:");
 * await leasehold.run("billing", ({ token }) => {
 *   const headers = { [FENCING_HEADER]: String(token) };
 *   console.log(new Request("http://localhost/close", { method: "POST", headers }));
 * });
 * await leasehold.close();
 * ```
 */
export const FENCING_HEADER = "fencing-token";

/** Options of `fencing`. */
export interface FencingOptions<Request> {
  /** Keeps the tokens: `memoryGuard()` for one process, `sqlGuard(...)` for several. */
  store: Guard;
  /**
   * Returns the resource of the request, by the name of its lease. If it returns something else, the request fails
   * with INVALID_OPTION, which `node` answers with 500 and the other servers' own error handlers get.
   */
  resource: (request: Request) => string;
  /**
   * Receives the errors of `node`: those of the handler and of the guard's store, each answered with an empty
   * 500. The other servers' own error handlers get them. Default: warnings of the process.
   */
  logger?: Logger;
}

/** A problem response, by RFC 9457. */
export interface FencingProblem {
  readonly type: string;
  readonly title: string;
  readonly status: 400 | 412 | 428 | 500;
  readonly detail: string;
  readonly token?: number;
  readonly lastToken?: number;
}

/** The members of Node's request and response that the guard uses; Express extends them. */
interface NodeRequest {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}
interface NodeResponse {
  statusCode: number;
  setHeader(name: string, value: string): unknown;
  end(text?: string): unknown;
  /** Whether the response has closed; one that has emits no further event. */
  readonly closed?: boolean;
  once(event: "close", listener: () => void): unknown;
}

interface FastifyRequest {
  readonly headers: NodeRequest["headers"];
}
interface FastifyReply {
  readonly raw: Pick<NodeResponse, "closed" | "once">;
  code(status: number): FastifyReply;
  type(mediaType: string): FastifyReply;
  hijack(): FastifyReply;
  send(body: unknown): unknown;
}

interface HonoContext {
  readonly req: {
    header(name: string): string | undefined;
    readonly raw?: { readonly signal: Pick<AbortSignal, "aborted"> };
  };
}

/** The guards that `fencing` returns, one for each kind of server. */
export interface Fencing<Request> {
  /**
   * Middleware of Express and Connect. It goes before the handlers.
   * @example
   * ```ts
   * import express from "express";
   * import { fencing, memoryGuard } from "leasehold/fence";
   *
   * const guarded = fencing({ store: memoryGuard(), resource: () => "billing" });
   * express().post("/close", guarded.express, (request, response) => {
   *   response.sendStatus(204);
   * });
   * ```
   */
  express(request: Request & NodeRequest, response: NodeResponse, next: Next): Promise<void>;
  /**
   * A hook of Fastify.
   * @example
   * ```ts
   * import fastify from "fastify";
   * import { fencing, memoryGuard } from "leasehold/fence";
   *
   * const guarded = fencing({ store: memoryGuard(), resource: () => "billing" });
   * fastify().post("/close", { preHandler: guarded.fastify }, () => "closed");
   * ```
   */
  fastify(request: Request & FastifyRequest, reply: FastifyReply): Promise<unknown>;
  /**
   * Middleware of Hono.
   * @example
   * ```ts
   * import { Hono } from "hono";
   * import { fencing, memoryGuard } from "leasehold/fence";
   *
   * const guarded = fencing({ store: memoryGuard(), resource: () => "billing" });
   * new Hono().post("/close", guarded.hono, (context) => context.text("closed"));
   * ```
   */
  hono(context: Request & HonoContext, next: () => Promise<void>): Promise<Response | undefined>;
  /**
   * Wraps a handler of Node's http.
   * @example
   * ```ts
   * import { createServer } from "node:http";
   * import { fencing, memoryGuard } from "leasehold/fence";
   *
   * const guarded = fencing({ store: memoryGuard(), resource: () => "billing" });
   * createServer(guarded.node((request, response) => response.end("closed")));
   * ```
   */
  node<Reply extends NodeResponse>(
    handler: (request: Request & NodeRequest, response: Reply) => unknown,
  ): (request: Request & NodeRequest, response: Reply) => void;
}
type Next = (error?: unknown) => void;
type Header = string | readonly string[] | undefined;

/** The status with which servers log a request whose client has disconnected. */
const CLIENT_CLOSED_REQUEST = 499;
const PROBLEM_TYPE = "application/problem+json";

/**
 * Guards HTTP handlers by the fencing token of the client's lease.
 *
 * @throws INVALID_OPTION
 * @example
 * ```ts
 * import { Hono } from "hono";
 * import { fencing, memoryGuard } from "leasehold/fence";
 *
 * const guarded = fencing({ store: memoryGuard(), resource: () => "billing" });
 * const app = new Hono().post("/close", guarded.hono, (context) => context.text("closed"));
 * const close = (token) => app.request("/close", { method: "POST", headers: { "fencing-token": token } });
 * console.log((await close("11")).status, (await close("10")).status);
 * ```
 */
export function fencing<Request>(options: FencingOptions<Request>): Fencing<Request> {
  const { store, resource } = options;
  const logger = guardedLogger(options.logger ?? warningLogger());
  if (typeof store?.guard !== "function") throw new InvalidOptionError("store", "must be a guard");
  checkFunction("resource", resource);
  const enter = (
    request: Request,
    header: Header,
    over: AbortSignal,
    isGone = () => over.aborted,
  ) => {
    const said = typeof header === "string" ? header : header?.join(", ");
    return pass(store, () => resource(request), said, over, isGone);
  };
  return {
    async express(request, response, next) {
      const token = request.headers[FENCING_HEADER];
      const entered = await enter(request, token, closeOf(response)).catch(asThrown);
      if (entered === "admitted") return next();
      if (entered instanceof Thrown) return next(entered.error);
      if (entered !== "gone") answer(response, entered);
    },
    async fastify(request, reply) {
      const entered = await enter(request, request.headers[FENCING_HEADER], closeOf(reply.raw));
      if (entered === "admitted") return undefined;
      // Fastify runs the handler after any hook that has not sent a reply. A handler must not run unguarded.
      if (entered === "gone") return reply.hijack();
      return reply.code(entered.status).type(PROBLEM_TYPE).send(JSON.stringify(entered));
    },
    async hono(context, next) {
      const over = new AbortController();
      const token = context.req.header(FENCING_HEADER);
      const isGone = () => context.req.raw?.signal.aborted ?? false;
      const entered = await enter(context, token, over.signal, isGone);
      // Hono needs a response, though no client receives it.
      if (entered === "gone") return new Response(null, { status: CLIENT_CLOSED_REQUEST });
      if (typeof entered !== "string") {
        const headers = { "content-type": PROBLEM_TYPE };
        return new Response(JSON.stringify(entered), { status: entered.status, headers });
      }
      try {
        await next();
      } finally {
        over.abort();
      }
      return undefined;
    },
    node: (handler) => (request, response) => {
      const failed = (err: unknown) => {
        logger.error({ err }, "a fenced request failed");
        response.statusCode = 500;
        response.end("");
      };
      enter(request, request.headers[FENCING_HEADER], closeOf(response))
        .catch((error: unknown) => {
          if (error instanceof InvalidOptionError) return problem(500, error.message);
          throw error;
        })
        .then((entered) => {
          if (entered === "admitted") return handler(request, response);
          if (entered !== "gone") answer(response, entered);
        })
        .catch(failed);
    },
  };
}

/** Aborts when the response has been sent or its client has disconnected, be it while it waits. */
function closeOf(response: Pick<NodeResponse, "closed" | "once">): AbortSignal {
  const close = new AbortController();
  if (response.closed) close.abort();
  else response.once("close", () => close.abort());
  return close.signal;
}

/**
 * Admits a request until `over` aborts. A request whose client has disconnected before it is admitted is "gone":
 * it passes the guard without work, so that it holds up no later one.
 */
function pass(
  store: Guard,
  resource: () => string,
  said: string | undefined,
  over: AbortSignal,
  isGone: () => boolean,
): Promise<FencingProblem | "admitted" | "gone"> {
  if (said === undefined) {
    return Promise.resolve(problem(428, "the header Fencing-Token is missing: send lease.token"));
  }
  const token = /^[0-9]{1,16}$/.test(said) ? Number(said) : Number.NaN;
  if (!(token >= 1 && token <= Number.MAX_SAFE_INTEGER)) {
    return Promise.resolve(problem(400, "the header Fencing-Token must be lease.token, a number"));
  }
  return new Promise((resolve, reject) => {
    const inside = () => {
      if (isGone()) return resolve("gone");
      resolve("admitted");
      return new Promise<void>((leave) => {
        over.addEventListener("abort", () => leave(), { once: true });
      });
    };
    Promise.resolve()
      .then(() => store.guard(nameIn(resource()), token, inside))
      .catch((error: unknown) => {
        if (!(error instanceof StaleTokenError)) return reject(error);
        const { lastToken } = error;
        resolve({ ...problem(412, error.message), token, lastToken });
      });
  });
}

/** @throws INVALID_OPTION */
function nameIn(resource: unknown): string {
  if (typeof resource === "string" && resource !== "") return resource;
  checkNotPromise("resource", resource, "the name of the lease");
  throw new InvalidOptionError(
    "resource",
    `must return the name of the lease for every request; it returned ${kindOf(resource)}`,
  );
}

/** Marks an error that the server must handle, not the guard. */
class Thrown {
  constructor(readonly error: unknown) {}
}
const asThrown = (error: unknown) => new Thrown(error);

const TITLES = {
  400: ["INVALID_TOKEN", "Not a fencing token"],
  412: ["STALE_TOKEN", "A newer holder has been here"],
  428: ["TOKEN_REQUIRED", "A fencing token is required"],
  500: ["INVALID_OPTION", "The guard of this server is set up wrongly"],
} as const;

function problem(status: keyof typeof TITLES, detail: string): FencingProblem {
  const [type, title] = TITLES[status];
  return { type, title, status, detail };
}

function answer(response: NodeResponse, entered: FencingProblem): void {
  response.statusCode = entered.status;
  response.setHeader("content-type", PROBLEM_TYPE);
  response.end(JSON.stringify(entered));
}
