/**
 * The guard in front of HTTP handlers: a request says its token in the header `Fencing-Token`; it is
 * answered 412 if a newer holder has passed, and 428 if it says none. While a handler works, requests
 * of newer holders for the same resource wait: until its response is done, or its caller has gone.
 */
import { InvalidOptionError, StaleTokenError } from "../core/index.js";
import type { Guard } from "./guard.js";

export const FENCING_HEADER = "fencing-token";

export interface FencingOptions<Request> {
  /** What remembers the tokens: `memoryGuard()` for one process, `sqlGuard(...)` for several. */
  store: Guard;
  /** Which resource the request writes to, as the lease names it. */
  resource: (request: Request) => string;
}

/** An answer as RFC 9457 has it. */
export interface FencingProblem {
  readonly type: string;
  readonly title: string;
  readonly status: 400 | 412 | 428;
  readonly detail: string;
  readonly token?: number;
  readonly lastToken?: number;
}

/** What Node's request and response have, which those of Express extend. */
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

/** What `fencing` makes: one for each kind of server. */
export interface Fencing<Request> {
  /** Before the handlers of Express and Connect: `app.post("/close", fencing(...).express, handler)`. */
  express(request: Request & NodeRequest, response: NodeResponse, next: Next): Promise<void>;
  /** A hook of Fastify: `{ preHandler: fencing(...).fastify }`. */
  fastify(request: Request & FastifyRequest, reply: FastifyReply): Promise<unknown>;
  /** Middleware of Hono: `app.post("/close", fencing(...).hono, handler)`. */
  hono(context: Request & HonoContext, next: () => Promise<void>): Promise<Response | undefined>;
  /** Around a handler of Node's http: `createServer(fencing(...).node(handler))`. */
  node<Reply extends NodeResponse>(
    handler: (request: Request & NodeRequest, response: Reply) => unknown,
  ): (request: Request & NodeRequest, response: Reply) => void;
}
type Next = (error?: unknown) => void;

const PROBLEM_TYPE = "application/problem+json";

/**
 * Guards handlers by the token of their caller's lease.
 *
 * @example
 * const guarded = fencing({ store: memoryGuard(), resource: (req) => `billing:${req.params.tenant}` });
 * app.post("/tenants/:tenant/close", guarded.express, (req, res) => res.sendStatus(204));
 *
 * @throws INVALID_OPTION
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

/** Lets a request in; it leaves by calling what this resolves to. */
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

/** Of a failure that is not for the guard to answer. */
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
