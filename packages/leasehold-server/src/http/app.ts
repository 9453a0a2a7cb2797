/**
 * The server as a fetch handler: (Request) => Response over the ports. It keeps no state of its own,
 * so any number of instances may stand before one database. No logic of leases or tasks is here:
 * routes check their input, call the port, and turn outcomes into statuses.
 */
import type { Context } from "hono";
import type { Env, Logger } from "leasehold";
import { InvalidOptionError, type LeaseStore } from "leasehold";
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
  withoutLeaseIds,
} from "leasehold/internal";
import { REQUEST_ID_HEADER } from "leasehold/internal/wire";
import { MOST_SECONDS } from "../protocol/index.js";
import { checkMay, needOf } from "./auth/access.js";
import { type Auth, Authenticator } from "./auth/authenticate.js";
import type { Caller } from "./auth/caller.js";
import { checkBasePath } from "./base-path.js";
import { Latencies, timedLeases, timedTasks } from "./console/latency.js";
import { type ConsoleFiles, servesConsole } from "./console/static.js";
import { Activities } from "./events/activity.js";
import type { LeaseListener } from "./lease-calls.js";
import { Admission, type Urgency, urgencyOf } from "./limits/admission.js";
import { Rates, resolveLimits, type ServerLimits, TenantsLimits } from "./limits/limits.js";
import { Tenants } from "./limits/tenants.js";
import { Pauses } from "./operations/pauses.js";
import {
  ProblemError,
  problemOf,
  type Refusal,
  refusalOf,
  tooMany,
  toResponse,
} from "./problems.js";
import { type AppEnv, budgetOf, requestIdOf } from "./request.js";
import { declareRoutes } from "./routes.js";
import { newApp } from "./routing.js";
import { newServices } from "./services.js";
import { measuredRequests, observeStores } from "./telemetry.js";

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
  /**
   * Whether requests need a key: `keys`, always; `ifAny`, as soon as the control store has one, which
   * is looked for every 2 s, and from then on; `none`, never: whoever reaches the app may do
   * everything. Default `ifAny`. With a key its namespace is served, without one that below.
   */
  readonly auth?: Auth;
  /**
   * While no key is asked for, requests are answered only if their Host, and the Origin that browsers
   * send, name one of these, like `localhost` or `[::1]`: or any web page could use the browser of
   * whoever looks at it. Default: any host, for apps that check themselves.
   */
  readonly trustedHosts?: readonly string[];
  /** What this instance takes on. Default: {@link DEFAULT_LIMITS}. */
  readonly limits?: Partial<ServerLimits>;
  /** Clock, randomness, logger and telemetry. Default: the real ones, silent. */
  readonly env?: Partial<Env>;
  /** What GET /metrics answers, in Prometheus's text format. Default: nobody keeps metrics, 501. */
  readonly metrics?: () => Promise<string>;
  /** Whose resources and tasks are served. Default `default`. */
  readonly namespace?: string;
  /**
   * The path below which the app is served, as its clients see it, like `/leasehold`; requests for
   * others are 404. Default none: it is the whole origin, or a mount takes the path away.
   */
  readonly basePath?: string;
  /** Shown by /healthz and in the OpenAPI document. */
  readonly version: string;
  /** The console to serve beside the API, as `consoleFiles()` reads it on Node. Default: none. */
  readonly console?: ConsoleFiles | null;
  /** What the stores are, for people: `postgres`, `memory`. Default: not said. */
  readonly engine?: string;
  /** Told what happens to tasks through this instance. */
  readonly onTaskEvent?: TaskListener;
  /** Told what happens to leases through this instance. */
  readonly onLeaseEvent?: LeaseListener;
}

export interface ServerApp {
  /** As it was given; absent: none. */
  readonly basePath?: string;
  /** Answers any request; never rejects. */
  fetch(request: Request): Promise<Response>;
  /**
   * What `fetch` would answer to a request of this head because the instance is overloaded; null: it
   * would not. For hosts that can answer so before they make a Request: that costs several times as much.
   */
  refusal?(head: {
    readonly method: string;
    readonly url: string;
    readonly requestId: string | undefined;
  }): Refusal | null;
  /**
   * Ends the waits of /api/tasks/next and the streams of /v1/events, refuses what comes later (503),
   * writes what the history still lacks and stops the background work. The stores stay open: whoever
   * opened them closes them.
   */
  close(): Promise<void>;
}

const OVERLOADED = tooMany("OVERLOADED", "this instance has more to do than it can", 1_000);
/** Renewals come several times in each ttl of everything that one has asked for. */
const KEEPING_RATIO = 10;

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
    throw new InvalidOptionError("auth", "cannot be keys without a control store that keeps them");
  }
  // Its answers tell tokens, and those who ask fence with them.
  if (options.leases.capabilities.tokens === false) {
    throw new InvalidOptionError("leases", "without fencing tokens cannot be served");
  }
  const env: Env = { ...systemEnv, ...options.env };
  const { telemetry, clock } = env;
  const serving = { serves: true, prefixesOf: namespace };
  const latencies = new Latencies(clock, MOST_SECONDS);
  const activities = new Activities(env);
  const noteTask: TaskListener = (event, tenant) => {
    activities.of(tenant).noteTask(event);
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
    mostWaiters: limits.waiters,
  });
  const admission = new Admission(env, limits);
  const tenantsLimits = new TenantsLimits(limits, control, env.clock);
  const rates = new Rates(env.clock);
  const anyone: Caller = {
    namespace,
    role: "admin",
    prefixes: [""],
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
      onTaskEvent: noteTask,
    },
    { onLeaseEvent: noteLease, onReplaced: recorder?.record },
  );
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
    logAnswer(env.logger, context, env.clock.monotonic() - startMs);
  });
  if (options.console) app.use(servesConsole(options.console, basePath));
  // Apart from the above, which goes on when this throws.
  app.use(async (context, next) => {
    context.set("budgetMs", budgetOf(context.req.raw));
    if (closing && context.req.path !== "/healthz") {
      throw new ProblemError("CLOSING", "this instance is closing; another one may serve you");
    }
    const need = needOf(context);
    if (need !== "public") {
      const urgency = urgencyOf(context.req.method, context.req.path);
      // Not so what operators do at any time: by a key that was revoked they do nothing.
      const keeps = urgency === "keeps" && (need === "hold" || need === "work");
      const caller = await authenticator.callerOf(context.req.raw, keeps);
      context.set("caller", caller);
      await checkRate(caller, urgency);
      checkMay(caller, need);
    }
    await next();
  });
  /** What keeps a lease must come through when much else is asked for. */
  const checkRate = async ({ namespace: tenant, actor }: Caller, urgency: Urgency) => {
    // Without keys nobody is told from anybody.
    if (actor === anyone.actor) return;
    const { ratePerSecond } = await tenantsLimits.of(tenant);
    if (ratePerSecond === null) return;
    const keeps = urgency === "keeps";
    const waitMs = rates.take(
      `${keeps ? "keeps" : "demands"} ${actor}`,
      keeps ? ratePerSecond * KEEPING_RATIO : ratePerSecond,
    );
    if (waitMs === 0) return;
    throw tooMany("TOO_MANY_REQUESTS", `this key may send ${ratePerSecond} per second`, waitMs);
  };
  app.onError((error, context) => toResponse(problemOf(error), context.get("requestId")));
  app.notFound(() => {
    throw new ProblemError("UNKNOWN_ROUTE", `see ${basePath}/openapi.json for the routes`);
  });

  declareRoutes(app, services, { version, basePath, namespace, metrics, engine: options.engine });

  const background: Repeating[] = [
    startReaper(tasks, env),
    startCollector(leases, env),
    authenticator,
    pauses,
    repeat(env, "forget full buckets", 60_000, async () => rates.forget()),
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
      await tenants.close();
      await Promise.all(background.map((work) => work.stop()));
    },
  };
}

/** One line per request. Bodies and queries may hold lease ids, so they are never logged. */
function logAnswer(logger: Logger, context: Context<AppEnv>, durationMs: number): void {
  const { status } = context.res;
  // Nobody was asked, or nobody was known.
  const caller = context.get("caller") as Caller | undefined;
  const fields = {
    requestId: context.get("requestId"),
    method: context.req.method,
    path: shownPath(context.req.path),
    status,
    durationMs: Math.round(durationMs),
    ...(caller?.keyId && { actor: caller.actor }),
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
