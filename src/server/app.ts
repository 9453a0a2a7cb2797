/**
 * The server as a fetch handler: (Request) => Response over the ports. It keeps no state of its own,
 * so any number of instances may stand before one database. No logic of leases or tasks is here:
 * routes check their input, call the port, and turn outcomes into statuses.
 */
import type { Context } from "hono";
import { type Control, type GrantHistory, startRecorder } from "../control/index.js";
import { type Env, type Logger, type Repeating, systemEnv, withoutLeaseIds } from "../env/index.js";
import { InvalidOptionError, type LeaseStore, startCollector } from "../lease/index.js";
import { REQUEST_ID_HEADER } from "../protocol/index.js";
import {
  type GeneratorState,
  observed,
  startReaper,
  type TaskEvent,
  type TaskStore,
} from "../tasks/index.js";
import { checkBasePath } from "./base-path.js";
import type { Caller } from "./caller.js";
import type { LeaseEvent } from "./lease-calls.js";
import { ProblemError, problemOf, toResponse } from "./problems.js";
import { type AppEnv, budgetOf, requestIdOf } from "./request.js";
import { declareRoutes } from "./routes/index.js";
import { newApp } from "./routing.js";
import { newServices } from "./services.js";
import { Tenants } from "./tenants.js";

export interface AppOptions {
  readonly leases: LeaseStore;
  readonly tasks: TaskStore;
  readonly generator: GeneratorState;
  /**
   * Where grants go that newer ones replace: written after the fact, about once a second, and kept
   * for a week. Default: they are forgotten.
   */
  readonly history?: GrantHistory | undefined;
  /** Keys, the audit, pauses and limits. Default: there are none, and what needs them answers 501. */
  readonly control?: Control | undefined;
  /** Clock, randomness and logger. Default: the real ones, silent. */
  readonly env?: Partial<Env>;
  /** Whose resources and tasks are served. Default `default`. */
  readonly namespace?: string;
  /**
   * The path below which the app is served, as its clients see it, like `/leasehold`; requests for
   * others are 404. Default none: it is the whole origin, or a mount takes the path away.
   */
  readonly basePath?: string;
  /** Shown by /healthz and in the OpenAPI document. */
  readonly version: string;
  /** Told what happens to tasks through this instance. */
  readonly onTaskEvent?: (event: TaskEvent) => void;
  /** Told what happens to leases through this instance. */
  readonly onLeaseEvent?: (event: LeaseEvent) => void;
}

export interface ServerApp {
  /** As it was given; absent: none. */
  readonly basePath?: string;
  /** Answers any request; never rejects. */
  fetch(request: Request): Promise<Response>;
  /**
   * Ends the waits of /api/tasks/next and the streams of /v1/events, refuses what comes later (503),
   * writes what the history still lacks and stops the background work. The stores stay open: whoever
   * opened them closes them.
   */
  close(): Promise<void>;
}

export function createApp(options: AppOptions): ServerApp {
  const {
    leases,
    generator,
    history,
    namespace = "default",
    basePath = "",
    version,
    onTaskEvent,
    onLeaseEvent,
  } = options;
  checkBasePath(basePath);
  // Its answers tell tokens, and those who ask fence with them.
  if (leases.capabilities.tokens === false) {
    throw new InvalidOptionError("leases", "without fencing tokens cannot be served");
  }
  const env: Env = { ...systemEnv, ...options.env };
  const tasks = onTaskEvent ? observed(options.tasks, onTaskEvent) : options.tasks;
  const tenants = new Tenants(env, leases, tasks);
  const recorder = history && startRecorder(history, env);
  const services = newServices(
    { env, leases, tasks, generator, history: recorder, tenants },
    { onLeaseEvent, onReplaced: recorder?.record },
  );
  const anyone: Caller = { namespace, role: "admin", prefixes: [""], actor: "anyone" };
  let closing = false;

  const app = newApp(basePath);
  app.use(async (context, next) => {
    const startMs = env.clock.monotonic();
    context.set("arrivedMs", startMs);
    context.set("requestId", requestIdOf(context.req.raw, env));
    await next();
    context.res.headers.set(REQUEST_ID_HEADER, context.get("requestId"));
    logAnswer(env.logger, context, env.clock.monotonic() - startMs);
  });
  // Apart from the above, which goes on when this throws.
  app.use(async (context, next) => {
    context.set("budgetMs", budgetOf(context.req.raw));
    if (closing && context.req.path !== "/healthz") {
      throw new ProblemError("CLOSING", "this instance is closing; another one may serve you");
    }
    context.set("caller", anyone);
    await next();
  });
  app.onError((error, context) => toResponse(problemOf(error), context.get("requestId")));
  app.notFound(() => {
    throw new ProblemError("UNKNOWN_ROUTE", `see ${basePath}/openapi.json for the routes`);
  });

  declareRoutes(app, services, { version, basePath });

  const background: Repeating[] = [startReaper(tasks, env), startCollector(leases, env)];
  if (history && recorder) {
    background.push(recorder, startCollector(history, env, "the history of grants"));
  }

  return {
    basePath,
    fetch: async (request) => app.fetch(request),
    async close() {
      closing = true;
      await tenants.close();
      await Promise.all(background.map((work) => work.stop()));
    },
  };
}

/** One line per request. Bodies and queries may hold lease ids, so they are never logged. */
function logAnswer(logger: Logger, context: Context<AppEnv>, durationMs: number): void {
  const { status } = context.res;
  const fields = {
    requestId: context.get("requestId"),
    method: context.req.method,
    path: shownPath(context.req.path),
    status,
    durationMs: Math.round(durationMs),
  };
  if (status < 400) {
    logger.debug({ event: "request_answered", ...fields }, "request answered");
    return;
  }
  const problem = context.error && problemOf(context.error);
  const refusal = { ...fields, code: problem?.code };
  if (status < 500) {
    logger.info({ event: "request_refused", ...refusal }, "request refused");
    return;
  }
  const failure = { event: "request_failed", ...refusal, err: problem?.cause };
  if (problem?.code === "INTERNAL") logger.error(failure, "request failed");
  else logger.warn(failure, "request failed");
}

/** Some routes name a lease by its id, and somebody may send one to any other, in any spelling. */
function shownPath(path: string): string {
  const spelled = path.replace(/%([2-7][0-9a-f])/gi, (_, code: string) =>
    String.fromCharCode(Number.parseInt(code, 16)),
  );
  return withoutLeaseIds(spelled);
}
