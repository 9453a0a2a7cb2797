/**
 * The guard in front of HTTP handlers. A request carries its token in the header `Fencing-Token`. The guard
 * returns 412 for a stale token and 428 if the token is missing. While a handler works, requests of newer
 * holders for the same resource wait until its response is sent or its client disconnects.
 */
import { InvalidOptionError, StaleTokenError } from "../core/index.js";
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

export interface FencingOptions<Request> {
  /** Keeps the tokens: `memoryGuard()` for one process, `sqlGuard(...)` for several. */
  store: Guard;
  /** Returns the resource of the request, by the name of its lease. */
  resource: (request: Request) => string;
}

/** A problem response, by RFC 9457. */
export interface FencingProblem {
  readonly type: string;
  readonly title: string;
  readonly status: 400 | 412 | 428;
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
  once(event: "close", listener: () => void): unknown;
}

interface FastifyRequest {
  readonly headers: NodeRequest["headers"];
}
interface FastifyReply {
  readonly raw: Pick<NodeResponse, "once">;
  code(status: number): FastifyReply;
  type(mediaType: string): FastifyReply;
  send(body: unknown): unknown;
}

interface HonoContext {
  readonly req: { header(name: string): string | undefined };
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
  if (typeof store?.guard !== "function") throw new InvalidOptionError("store", "must be a guard");
  if (typeof resource !== "function") {
    throw new InvalidOptionError("resource", "must be a function from the request to its resource");
  }
  const enter = (request: Request, header: string | readonly string[] | undefined) => {
    const said = typeof header === "string" ? header : header?.join(", ");
    return pass(store, () => resource(request), said);
  };
  return {
    async express(request, response, next) {
      const entered = await enter(request, request.headers[FENCING_HEADER]).catch(asThrown);
      if (entered instanceof Thrown) return next(entered.error);
      if (typeof entered !== "function") return answer(response, entered);
      response.once("close", entered);
      next();
    },
    async fastify(request, reply) {
      const entered = await enter(request, request.headers[FENCING_HEADER]);
      if (typeof entered !== "function") {
        return reply.code(entered.status).type(PROBLEM_TYPE).send(JSON.stringify(entered));
      }
      reply.raw.once("close", entered);
      return undefined;
    },
    async hono(context, next) {
      const entered = await enter(context, context.req.header(FENCING_HEADER));
      if (typeof entered !== "function") {
        const headers = { "content-type": PROBLEM_TYPE };
        return new Response(JSON.stringify(entered), { status: entered.status, headers });
      }
      try {
        await next();
      } finally {
        entered();
      }
      return undefined;
    },
    node: (handler) => (request, response) => {
      const failed = () => {
        response.statusCode = 500;
        response.end("");
      };
      enter(request, request.headers[FENCING_HEADER])
        .then((entered) => {
          if (typeof entered !== "function") return answer(response, entered);
          response.once("close", entered);
          return handler(request, response);
        })
        .catch(failed);
    },
  };
}

/** Admits a request. Call the function that it resolves to when the request has ended. */
function pass(
  store: Guard,
  resource: () => string,
  said: string | undefined,
): Promise<FencingProblem | (() => void)> {
  if (said === undefined) {
    return Promise.resolve(problem(428, "the header Fencing-Token is missing: send lease.token"));
  }
  const token = /^[0-9]{1,16}$/.test(said) ? Number(said) : Number.NaN;
  if (!(token >= 1 && token <= Number.MAX_SAFE_INTEGER)) {
    return Promise.resolve(problem(400, "the header Fencing-Token must be lease.token, a number"));
  }
  return new Promise((resolve, reject) => {
    const inside = () => new Promise<void>((leave) => resolve(leave));
    Promise.resolve()
      .then(() => store.guard(resource(), token, inside))
      .catch((error: unknown) => {
        if (!(error instanceof StaleTokenError)) return reject(error);
        const { lastToken } = error;
        resolve({ ...problem(412, error.message), token, lastToken });
      });
  });
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
