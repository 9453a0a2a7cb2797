/**
 * The server as a fetch handler, (Request) => Response, over the ports. It keeps no state of its own,
 * so any number of instances can share one database. It has no logic of leases or tasks: routes check
 * their input, call the port, and turn outcomes into statuses.
 */
import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import type { Env } from "leasehold";
import {
  KEEP_ENDED_KEYS_MS,
  observed,
  type Repeating,
  repeat,
  startCollector,
  startReaper,
  startRecorder,
  systemEnv,
  type TaskListener,
} from "leasehold/internal";
import { REQUEST_ID_HEADER } from "leasehold/internal/wire";
import { MAX_SECONDS } from "../protocol/index.js";
import { type AppOptions, checkOptions, type ServerApp } from "./app-options.js";
import { checkMay, needOf, routeOf } from "./auth/access.js";
import { Authenticator } from "./auth/authenticate.js";
import { noteAuthenticated } from "./auth/authenticated.js";
import { checkBootstrap } from "./auth/bootstrap.js";
import type { Caller } from "./auth/caller.js";
import { Latencies, timedLeases, timedTasks } from "./console/latency.js";
import { servesConsole } from "./console/static.js";
import { UnhandledKinds } from "./console/unhandled.js";
import { Activities } from "./events/activity.js";
import type { LeaseListener } from "./lease-calls.js";
import { Admission } from "./limits/admission.js";
import { Demand } from "./limits/demand.js";
import { resolveLimits, TenantsLimits } from "./limits/limits.js";
import { TenantAdmission } from "./limits/tenant-admission.js";
import { Tenants } from "./limits/tenants.js";
import { Urgencies, urgencyOfRoute } from "./limits/urgency.js";
import { Pauses } from "./operations/pauses.js";
import {
  notJson,
  ProblemError,
  problemOf,
  type Refusal,
  refusalOf,
  tooMany,
  toResponse,
} from "./problems.js";
import { type Answer, type AppEnv, budgetOf, type Connection, requestIdOf } from "./request.js";
import { RequestLog } from "./request-log.js";
import { declareRoutes } from "./routes.js";
import { newApp } from "./routing.js";
import { newServices } from "./services.js";
import { measuredRequests, observeStores } from "./telemetry.js";

const OVERLOADED = tooMany("OVERLOADED", "this instance is overloaded", 1_000);
/** A key is not checked again for a body that has arrived by then, at the cost of a read where its record is old. */
const PROMPT_BODY_MS = 1_000;

/**
 * Creates the server as a fetch handler. Serve it with {@link listen}, {@link nodeHandler} or any host that takes a
 * fetch handler.
 * @param options the stores, usually of `openStores` of leasehold, and see each
 * @throws INVALID_OPTION, also for leases without fencing tokens, and for `auth: "keys"` without a control store
 * @example
 * ```ts
 * import { openStores } from "leasehold";
 * import { createApp } from "leasehold-server";
 *
 * const stores = await openStores("memory:");
 * const app = createApp({ ...stores, version: "1.0.0", limits: { inFlight: 100 } });
 * const response = await app.fetch(new Request("http://localhost/healthz"));
 * console.log(response.status);
 * await app.close();
 * await stores.close();
 * ```
 */
export function createApp(options: AppOptions): ServerApp {
  const {
    generator,
    history,
    control,
    namespace = "default",
    basePath = "",
    version,
    auth = "keys",
    metrics,
    bootstrapToken,
    onTaskEvent,
    onLeaseEvent,
  } = options;
  checkOptions(options, auth);
  const env: Env = { ...systemEnv, ...options.env };
  const { telemetry, clock } = env;
  const serving = { serves: true, namesOf: namespace };
  const latencies = new Latencies(clock, MAX_SECONDS);
  const activities = new Activities(env);
  const noteTask: TaskListener = (event, tenant) => {
    activities.of(tenant).noteTask(event);
    if (event.type === "enqueued") unhandled.note(tenant);
    onTaskEvent?.(event, tenant);
  };
  const noteLease: LeaseListener = (event, tenant) => {
    activities.of(tenant).noteLease(event);
    onLeaseEvent?.(event, tenant);
  };
  const leases = timedLeases(
    telemetry?.measured("leases", options.leases, clock, serving) ?? options.leases,
    clock,
    latencies,
  );
  const unhandled = new UnhandledKinds({
    env,
    tasks: options.tasks,
    activities,
    control,
    namespace,
  });
  const measuredTasks = telemetry?.measured("tasks", options.tasks, clock) ?? options.tasks;
  const tasks = observed(timedTasks(measuredTasks, clock, latencies), noteTask);
  const recorder = history && startRecorder(history, env);
  const limits = resolveLimits(options.limits);
  const pauses = new Pauses(control, env);
  const tenants = new Tenants({
    env,
    leases,
    tasks,
    pauses,
    activities,
    limits,
  });
  const admission = new Admission(env, limits);
  const tenantsLimits = new TenantsLimits(limits, control, env.clock);
  const tenantAdmission = new TenantAdmission(env.clock, limits, tenantsLimits);
  const anyone: Caller = {
    namespace,
    role: "admin",
    prefixes: [],
    actor: "anyone",
    keyId: null,
  };
  const authenticator = new Authenticator(
    { auth, keys: control?.keys, anyone, hosts: options.trustedHosts, bootstrapToken },
    env,
  );
  const services = newServices(
    {
      env,
      leases,
      tasks,
      generator,
      history: recorder,
      tenants,
      limits,
      tenantsLimits,
      authenticator,
      control,
      pauses,
      activities,
      latencies,
      unhandled,
      onTaskEvent: noteTask,
    },
    {
      noteRenewed: (caller) => tenantAdmission.noteRenewed(caller),
      onLeaseEvent: noteLease,
      onReplaced: recorder?.record,
    },
  );
  const noteRefused = () => {
    admission.refuse();
    telemetry?.count("leasehold.server.refused", {});
  };
  const requestLog = new RequestLog(env);
  const demands = new WeakMap<Request, Demand>();
  let closing = false;

  const app = newApp(basePath);
  const served = new Set([namespace]);
  if (telemetry) app.use(measuredRequests({ ...env, telemetry }, served));
  const unobserve =
    telemetry &&
    observeStores(telemetry, { leases, tasks, generator, clock, tenants: served, namespace });
  app.use(async (context, next) => {
    const startMs = env.clock.monotonic();
    context.set("arrivedMs", startMs);
    context.set("requestId", requestIdOf(context.req.header(REQUEST_ID_HEADER), env));
    await next();
    const { headers } = context.res;
    headers.set(REQUEST_ID_HEADER, context.get("requestId"));
    headers.set("x-content-type-options", "nosniff");
    // The console's files may be cached.
    if (!headers.has("cache-control")) headers.set("cache-control", "no-store");
    requestLog.note(context, env.clock.monotonic() - startMs);
  });
  if (options.console) app.use(servesConsole(options.console, basePath));
  // A separate middleware: the one above continues when this one throws.
  app.use(async (context, next) => {
    context.set("budgetMs", budgetOf(context.req.raw));
    if (closing && context.req.path !== "/healthz") {
      throw new ProblemError("CLOSING", "this instance is closing; retry on another one");
    }
    context.set("maxBodyBytes", limits.bodyBytes);
    const onBody = bodyListenerOf(context);
    context.set("arriving", (read) => {
      onBody();
      return read();
    });
    const need = needOf(context);
    if (need === "public") return next();
    const { path, raw } = context.req;
    const route = routeOf(context);
    const urgency = urgencyOfRoute(route);
    // Operator actions never use a cached key: a revoked key must not work for them.
    const keeps = urgency === "keeps" && (need === "hold" || need === "work");
    // Guessed keys must not take the room of requests: the authenticator limits the reads of keys by itself.
    const demand = demands.get(raw);
    demand?.pause();
    const caller = await authenticator.callerOf(raw, keeps, addressOf(context));
    context.set("caller", caller);
    const checkedMs = env.clock.monotonic();
    context.set("checkCaller", async () => {
      if (env.clock.monotonic() - checkedMs < PROMPT_BODY_MS) return;
      await authenticator.checkAgain(caller, keeps);
    });
    noteAuthenticated(raw);
    const { headers } = raw;
    const admitted = await tenantAdmission.enter({ caller, urgency, path, headers });
    const { arrive, begin, leave } = admitted;
    const resume = async () => {
      if (!demand || demand.resume(caller.keyId === null ? null : caller.namespace)) return;
      noteRefused();
      await tenantAdmission.delayRefusal(caller);
      throw OVERLOADED;
    };
    context.set("arriving", async (read) => {
      demand?.pause();
      onBody();
      const body = await read();
      await arrive();
      await resume();
      return body;
    });
    context.set("begin", begin);
    try {
      await resume();
      checkBootstrap(caller, route);
      checkMay(caller, need);
      await next();
    } finally {
      leave(answerOf(context));
    }
  });
  app.onError((error, context) => {
    const problem = problemOf(error);
    const isOtherType = context.get("assumedJson") && error instanceof HTTPException;
    return toResponse(isOtherType ? notJson() : problem, context.get("requestId"));
  });
  app.notFound(() => {
    throw new ProblemError("UNKNOWN_ROUTE", `see ${basePath}/openapi.json for the routes`);
  });

  declareRoutes(app, services, { version, basePath, namespace, metrics, engine: options.engine });

  const urgencies = new Urgencies(app);

  const background: Repeating[] = [
    startReaper(tasks, env),
    startCollector(leases, env),
    authenticator,
    pauses,
    unhandled,
    repeat(env, "forget full buckets", 60_000, async () => tenantAdmission.forget()),
  ];
  if (control) background.push(startCollector(control.keys, env, "ended keys", KEEP_ENDED_KEYS_MS));
  if (history && recorder) {
    background.push(recorder, startCollector(history, env, "the history of grants"));
  }

  const refuse = (chosenId: string | undefined): Refusal => {
    noteRefused();
    return refusalOf(OVERLOADED, requestIdOf(chosenId, env));
  };

  return {
    basePath,
    refusal({ method, url, requestId }) {
      if (!admission.isFull || urgencies.ofHead(method, url) !== "demands") return null;
      return refuse(requestId);
    },
    async fetch(request, connection) {
      if (urgencies.of(request) !== "demands") return app.fetch(request, connection);
      const demand = new Demand(admission);
      if (demand.isRefused) {
        const { body, ...init } = refuse(request.headers.get(REQUEST_ID_HEADER) ?? undefined);
        return new Response(body, init);
      }
      demands.set(request, demand);
      try {
        return await app.fetch(request, connection);
      } finally {
        demand.end();
      }
    },
    async close() {
      closing = true;
      unobserve?.();
      admission.close();
      activities.close();
      requestLog.close();
      await tenants.close();
      await Promise.all(background.map((work) => work.stop()));
    },
  };
}

/** Hosts may pass other things than a connection. */
function addressOf({ env }: Context<AppEnv>): string | undefined {
  const { remoteAddress }: { remoteAddress?: unknown } = env ?? {};
  return typeof remoteAddress === "string" ? remoteAddress : undefined;
}

function bodyListenerOf({ env }: Context<AppEnv>): () => void {
  const { onBody }: Partial<Connection> = env ?? {};
  return typeof onBody === "function" ? onBody : () => {};
}

function answerOf({ env }: Context<AppEnv>): Answer | undefined {
  const { answer }: { answer?: Answer } = env ?? {};
  return typeof answer?.onEnd === "function" ? answer : undefined;
}
