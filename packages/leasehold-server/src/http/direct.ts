/**
 * Serves the requests that keep leases without the framework, whose middleware, contexts and headers cost several times
 * as much as the lease:
 *
 *   POST /v1/leases/acquire, renew, release
 *     ├─ plain: JSON of a declared length, no query ─▶ entry ─▶ body ─▶ the operation ─▶ response
 *     └─ anything else ─▶ the framework (app.ts), which serves the same routes
 *
 * It decides nothing of its own: entry.ts admits the request, the routes are those that the framework serves
 * (native/leases-routes.ts), and a body that is not in its usual form is read by their schema. What it leaves out cannot
 * apply to a plain request.
 */
import type { Env } from "leasehold";
import { readJson } from "leasehold/internal";
import { BOUNDS, REQUEST_ID_HEADER } from "leasehold/internal/wire";
import type { Caller } from "./auth/caller.js";
import type { Entered, Entry } from "./entry.js";
import type { Demand } from "./limits/admission.js";
import { KEEPING_ROUTES, type KeepingRoute } from "./native/leases-routes.js";
import { fieldErrors, invalid, problemOf, toResponse } from "./problems.js";
import {
  type AppEnv,
  budgetOf,
  bytesOf,
  type RequestScope,
  requestIdOf,
  textOf,
} from "./request.js";
import type { RequestLog } from "./request-log.js";
import { type RouteRule, ruleOf } from "./route-rules.js";
import type { Services } from "./services.js";
import type { RequestMeter } from "./telemetry.js";

/** The content types of plain requests. Others may need more than this. */
const JSON_TYPES = new Set(["application/json", "application/json; charset=utf-8"]);

/** A route that is served directly. */
export interface DirectRoute extends RouteRule {
  readonly path: string;
  readonly route: string;
  readonly serve: (services: Services, scope: RequestScope, body: unknown) => Promise<unknown>;
}

function direct({ route: declared, schema, plain, serve }: KeepingRoute): DirectRoute {
  const { path } = declared;
  const parse = (body: unknown) => {
    const parsed = plain(body);
    if (parsed !== null) return parsed;
    const { data, error } = schema.safeParse(body);
    if (error) throw invalid(fieldErrors(error.issues));
    return data;
  };
  return {
    ...ruleOf(declared),
    path,
    route: `POST ${path}`,
    serve: (services, scope, body) => serve(services, scope, parse(body)),
  };
}

const ROUTES: ReadonlyMap<string, DirectRoute> = new Map(
  KEEPING_ROUTES.map((route) => [route.route.path, direct(route)]),
);

interface DirectOptions {
  readonly env: Env;
  /** The path of a request below the base of the app. */
  readonly getPath: (request: Request) => string;
  readonly entry: Entry;
  readonly services: Services;
  readonly requestLog: Pick<RequestLog, "note">;
  /** Undefined: requests are not measured. */
  readonly meter: RequestMeter | undefined;
  /** @throws CLOSING */
  readonly checkOpen: () => void;
}

export class Direct {
  readonly #options: DirectOptions;
  readonly #mostBytes: number;

  constructor(options: DirectOptions) {
    this.#options = options;
    this.#mostBytes = Math.min(BOUNDS.batchBodyBytes, options.services.limits.bodyBytes);
  }

  /** The route, if the request is a plain one. */
  routeOf(request: Request): DirectRoute | undefined {
    if (request.method !== "POST" || request.url.includes("?")) return undefined;
    const route = ROUTES.get(this.#options.getPath(request));
    return route && this.#isPlain(request.headers) ? route : undefined;
  }

  #isPlain(headers: Headers): boolean {
    const bytes = headers.get("content-length");
    return (
      JSON_TYPES.has(headers.get("content-type") ?? "") &&
      bytes !== null &&
      Number(bytes) <= this.#mostBytes &&
      !headers.has("transfer-encoding") &&
      !headers.has("content-encoding")
    );
  }

  /** Never rejects. */
  async serve(
    route: DirectRoute,
    request: Request,
    host: unknown,
    demand: Demand | undefined,
  ): Promise<Response> {
    const scope = new DirectScope(request, this.#options.env);
    const { meter } = this.#options;
    if (!meter) return this.#respond(route, scope, host, demand);
    let response: Response | undefined;
    await meter.measure(request, async () => {
      response = await this.#respond(route, scope, host, demand);
      return { route: route.route, status: response.status, tenant: scope.caller?.namespace };
    });
    return response as unknown as Response;
  }

  async #respond(
    route: DirectRoute,
    scope: DirectScope,
    host: unknown,
    demand: Demand | undefined,
  ): Promise<Response> {
    const { requestLog, env } = this.#options;
    const { requestId, arrivedMs, caller } = scope;
    let response: Response;
    let error: unknown;
    try {
      const answer = await this.#answer(route, scope, host, demand);
      // All headers at once: changed later, they would become an object of the platform.
      response = new Response(JSON.stringify(answer), {
        status: 200,
        headers: {
          "content-type": "application/json",
          "cache-control": "no-store",
          "x-content-type-options": "nosniff",
          [REQUEST_ID_HEADER]: requestId,
        },
      });
    } catch (thrown) {
      error = thrown;
      response = toResponse(problemOf(thrown), requestId);
    }
    const { status } = response;
    const answered = { requestId, method: "POST", path: route.path, status, caller, error };
    requestLog.note(answered, env.clock.monotonic() - arrivedMs);
    return response;
  }

  async #answer(
    { route, need, urgency, serve }: DirectRoute,
    scope: DirectScope,
    host: unknown,
    demand: Demand | undefined,
  ): Promise<unknown> {
    const { entry, services, checkOpen } = this.#options;
    const { raw: request } = scope.req;
    scope.budgetMs = budgetOf(request);
    checkOpen();
    const known = (caller: Caller) => {
      scope.caller = caller;
    };
    return entry.run({ request, route, need, urgency, host, demand }, known, async (entered) => {
      const body = await bodyOf(request, entered);
      return serve(services, scope, body);
    });
  }
}

/** The parsed body, once its items may be served. */
async function bodyOf(request: Request, entered: Entered): Promise<unknown> {
  const text = textOf(await entered.arriving(() => bytesOf(request)));
  // The key may have ended while the body was sent, for as long as its sender liked.
  await entered.checkCaller();
  const body = readJson(text);
  if (Array.isArray(body)) await entered.begin(body.length);
  return body;
}

type Variables = AppEnv["Variables"];

class DirectScope implements RequestScope {
  readonly req: { readonly raw: Request };
  readonly requestId: string;
  readonly arrivedMs: number;
  budgetMs: number | null = null;
  caller: Caller | undefined;

  constructor(request: Request, env: Env) {
    this.req = { raw: request };
    this.arrivedMs = env.clock.monotonic();
    this.requestId = requestIdOf(request.headers.get(REQUEST_ID_HEADER) ?? undefined, env);
  }

  get<Name extends keyof Variables>(name: Name): Variables[Name] {
    return (this as Partial<Variables>)[name] as Variables[Name];
  }
}
