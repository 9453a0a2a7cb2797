/**
 * The server as a fetch handler, (Request) => Response, over the ports. It keeps no state of its own,
 * so any number of instances can share one database. It has no logic of leases or tasks: routes check
 * their input, call the port, and turn outcomes into statuses.
 */
import { HTTPException } from "hono/http-exception";
import { type Env, InvalidOptionError, type LeaseStore } from "leasehold";
import {
  type Control,
  type GeneratorState,
  type GrantHistory,
  KEEP_ENDED_KEYS_MS,
  observed,
  type Repeating,
  repeat,
  startCollector,
  startReaper,
  startRecorder,
  systemEnv,
  type TaskListener,
  type TaskStore,
} from "leasehold/internal";
import { REQUEST_ID_HEADER } from "leasehold/internal/wire";
import { MAX_SECONDS } from "../protocol/index.js";
import { checkMay, needOf } from "./auth/access.js";
import { type Auth, Authenticator } from "./auth/authenticate.js";
import { noteAuthenticated } from "./auth/authenticated.js";
import type { Caller } from "./auth/caller.js";
import { checkBasePath } from "./base-path.js";
import { Latencies, timedLeases, timedTasks } from "./console/latency.js";
import { type ConsoleFiles, servesConsole } from "./console/static.js";
import { UnhandledKinds } from "./console/unhandled.js";
import { Activities } from "./events/activity.js";
import type { LeaseListener } from "./lease-calls.js";
import { Admission, urgencyOf } from "./limits/admission.js";
import { resolveLimits, type ServerLimits, TenantsLimits } from "./limits/limits.js";
import { TenantAdmission } from "./limits/tenant-admission.js";
import { Tenants } from "./limits/tenants.js";
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
import { budgetOf, itemsOf, requestIdOf } from "./request.js";
import { RequestLog } from "./request-log.js";
import { declareRoutes } from "./routes.js";
import { newApp } from "./routing.js";
import { newServices } from "./services.js";
import { measuredRequests, observeStores } from "./telemetry.js";

export interface AppOptions {
  readonly leases: LeaseStore;
  readonly tasks: TaskStore;
  readonly generator: GeneratorState;
  /**
   * Stores grants that newer ones replaced. The app writes them about once a second, after the new
   * grant, and keeps them for a week. Default: replaced grants are not kept.
   */
  readonly history?: GrantHistory | undefined;
  /** Keys, the audit, pauses and limits. Default: none; routes that need them return 501. */
  readonly control?: Control | undefined;
  /**
   * Whether requests need a key. `keys`: always. `ifAny`: from when the control store first has one;
   * the app checks every 2 s. `none`: never, and every caller is an admin. Default `ifAny`. A request
   * with a key uses the key's namespace, a request without one uses {@link AppOptions.namespace}.
   */
  readonly auth?: Auth;
  /**
   * Host names that requests without a key must use, in Host and in the Origin that browsers send, like
   * `localhost` or `[::1]`. Otherwise any web page could send requests through a visitor's browser.
   * Default: any host, for apps that check hosts themselves.
   */
  readonly trustedHosts?: readonly string[];
  /** Limits of this instance. Default: {@link DEFAULT_LIMITS}. */
  readonly limits?: Partial<ServerLimits>;
  /** Clock, randomness, logger and telemetry. Default: the system's, without logs and metrics. */
  readonly env?: Partial<Env>;
  /** Returns the metrics in Prometheus's text format, for GET /metrics. Default: it returns 501. */
  readonly metrics?: () => Promise<string>;
  /** The namespace of requests without a key. Default `default`. */
  readonly namespace?: string;
  /**
   * The path below which clients reach the app, like `/leasehold`. Other paths return 404. Default
   * none: the app is the whole origin, or a mount strips the path.
   */
  readonly basePath?: string;
  /** Shown by /healthz and in the OpenAPI document. */
  readonly version: string;
  /** The console to serve beside the API, as `consoleFiles()` reads it on Node. Default: none. */
  readonly console?: ConsoleFiles | null;
  /** Name of the stores' engine, for people: `postgres`, `memory`. Default: not shown. */
  readonly engine?: string;
  /** Receives the task events of this instance. */
  readonly onTaskEvent?: TaskListener;
  /** Receives the lease events of this instance. */
  readonly onLeaseEvent?: LeaseListener;
}

export interface ServerApp {
  /** The option of the same name; absent: none. */
  readonly basePath?: string;
  /** Answers any request. Never rejects. */
  fetch(request: Request): Promise<Response>;
  /**
   * The response of `fetch` to a request with this head if the instance is overloaded, otherwise null.
   * Hosts can send it before they create a Request, which costs several times as much.
   * @example
   * ```ts
   * import { openStores } from "leasehold";
   * import { createApp } from "leasehold-server";
   *
   * const stores = await openStores("memory:");
   * const app = createApp({ ...stores, version: "1.0.0" });
   * const head = { method: "GET", url: "/v1/leases", requestId: undefined };
   * console.log(app.refusal?.(head)?.status ?? "admitted");
   * await app.close();
   * await stores.close();
   * ```
   */
  refusal?(head: {
    readonly method: string;
    readonly url: string;
    readonly requestId: string | undefined;
  }): Refusal | null;
  /**
   * Ends the waits of /api/tasks/next and the streams of /v1/events, refuses later requests (503),
   * writes pending history and stops the background work. The stores stay open: the caller that opened
   * them closes them.
   */
  close(): Promise<void>;
}

const OVERLOADED = tooMany("OVERLOADED", "this instance is overloaded", 1_000);

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
    auth = "ifAny",
    metrics,
    onTaskEvent,
    onLeaseEvent,
  } = options;
  checkBasePath(basePath);
  if (auth === "keys" && !control) {
    throw new InvalidOptionError("auth", "cannot be keys without a control store");
  }
  // Clients fence with the tokens in its responses.
  if (options.leases.capabilities.tokens === false) {
    throw new InvalidOptionError("leases", "without fencing tokens cannot be served");
  }
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
    { auth, keys: control?.keys, anyone, hosts: options.trustedHosts },
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
  const requestLog = new RequestLog(env);
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
    context.res.headers.set(REQUEST_ID_HEADER, context.get("requestId"));
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
    const need = needOf(context);
    if (need === "public") return next();
    const { method, path, raw } = context.req;
    const urgency = urgencyOf(method, path);
    // Operator actions never use a cached key: a revoked key must not work for them.
    const keeps = urgency === "keeps" && (need === "hold" || need === "work");
    const caller = await authenticator.callerOf(raw, keeps);
    context.set("caller", caller);
    noteAuthenticated(raw);
    const leave = await tenantAdmission.enter({ caller, urgency, path, headers: raw.headers });
    try {
      checkMay(caller, need);
      await next();
    } finally {
      leave(itemsOf(context));
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
    admission.refuse();
    telemetry?.count("leasehold.server.refused", {});
    return refusalOf(OVERLOADED, requestIdOf(chosenId, env));
  };

  return {
    basePath,
    refusal({ method, url, requestId }) {
      if (!admission.isFull || urgencyOf(method, url) !== "demands") return null;
      return refuse(requestId);
    },
    async fetch(request) {
      if (urgencyOf(request.method, request.url) !== "demands") return app.fetch(request);
      const leave = admission.enter();
      if (!leave) {
        const { body, ...init } = refuse(request.headers.get(REQUEST_ID_HEADER) ?? undefined);
        return new Response(body, init);
      }
      try {
        return await app.fetch(request);
      } finally {
        leave();
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
