/**
 * The server as a fetch handler, (Request) => Response, over the ports. It keeps no state of its own,
 * so any number of instances can share one database. It has no logic of leases or tasks: routes check
 * their input, call the port, and turn outcomes into statuses.
 */
import { HTTPException } from "hono/http-exception";
import {
  guarded,
  guardedEnv,
  KEEP_ENDED_KEYS_MS,
  observed,
  type Repeating,
  repeat,
  startCollector,
  startReaper,
  startRecorder,
  startTicking,
  systemEnv,
  type TaskListener,
} from "leasehold/internal";
import { REQUEST_ID_HEADER } from "leasehold/internal/wire";
import { GeneratorState } from "../generator/state.js";
import { MAX_SECONDS } from "../protocol/index.js";
import { type AppOptions, checkOptions, type ServerApp } from "./app-options.js";
import { Authenticator } from "./auth/authenticate.js";
import type { Caller } from "./auth/caller.js";
import { KeyUses } from "./auth/key-uses.js";
import { Networks } from "./auth/networks.js";
import { Oidc } from "./auth/oidc/oidc.js";
import { servesSignIn } from "./auth/oidc/sign-in.js";
import { Latencies, timedLeases, timedTasks } from "./console/latency.js";
import { servesConsole } from "./console/static.js";
import { UnhandledKinds } from "./console/unhandled.js";
import { Direct } from "./direct.js";
import { Entry, noteBodyAt, OVERLOADED } from "./entry.js";
import { Activities } from "./events/activity.js";
import type { LeaseListener } from "./lease-calls.js";
import { Admission, Demand } from "./limits/admission.js";
import { resolveLimits } from "./limits/limits.js";
import { TenantAdmission } from "./limits/tenant-admission.js";
import { Tenants } from "./limits/tenants.js";
import { AccessAudit } from "./operations/access-audit.js";
import { Pauses } from "./operations/pauses.js";
import {
  notJson,
  ProblemError,
  problemOf,
  type Refusal,
  refusalOf,
  toResponse,
} from "./problems.js";
import { LeaseWaiters } from "./quotas/lease-waiters.js";
import { TenantsLimits } from "./quotas/tenants-limits.js";
import { Refusals } from "./refusals.js";
import { budgetOf, requestIdOf } from "./request.js";
import { type Answered, RequestLog } from "./request-log.js";
import { routeOf, rulesOf } from "./route-rules.js";
import { declareRoutes } from "./routes.js";
import { newApp } from "./routing.js";
import { newServices } from "./services.js";
import { measuredRequests, observeLimiting, observeStores, RequestMeter } from "./telemetry.js";
import { Urgencies } from "./urgency.js";

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
    once,
    schedules,
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
  const env = guardedEnv({ ...systemEnv, ...options.env });
  const { telemetry, clock } = env;
  const serving = { serves: true, namesOf: namespace };
  const latencies = new Latencies(clock, MAX_SECONDS);
  const activities = new Activities(env);
  const listenerThrew = (listener: string) => (err: unknown) =>
    env.logger.error({ err, listener }, "a listener threw");
  const noteTask: TaskListener = (event, tenant) => {
    activities.of(tenant).noteTask(event);
    if (event.type === "enqueued") unhandled.note(tenant);
    guarded(() => onTaskEvent?.(event, tenant), listenerThrew("onTaskEvent"));
  };
  const noteLease: LeaseListener = (event, tenant) => {
    activities.of(tenant).noteLease(event);
    guarded(() => onLeaseEvent?.(event, tenant), listenerThrew("onLeaseEvent"));
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
  const generator = new GeneratorState(options.backing);
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
  const admission = new Admission(env.clock, limits);
  const tenantsLimits = new TenantsLimits(limits, control, env.clock);
  const tenantAdmission = new TenantAdmission(env.clock, limits, tenantsLimits);
  const anyone: Caller = {
    namespace,
    role: "admin",
    prefixes: [],
    actor: "anyone",
    keyId: null,
  };
  const keyUses = control && new KeyUses(control.keys, env);
  const oidc = options.oidc && new Oidc(options.oidc, namespace, env);
  const keysAndHosts = { keys: control?.keys, hosts: options.trustedHosts, bootstrapToken };
  const authenticator = new Authenticator(
    { auth, anyone, ...keysAndHosts, noteUsed: keyUses?.note, oidc },
    env,
  );
  const leaseWaiters = new LeaseWaiters(clock);
  const services = newServices(
    {
      env,
      leases,
      tasks,
      once,
      schedules,
      generator,
      history: recorder,
      tenants,
      leaseWaiters,
      limits,
      tenantsLimits,
      authenticator,
      control,
      pauses,
      keyMaxLifeMs: options.keyMaxLifeMs,
      activities,
      latencies,
      unhandled,
      onTaskEvent: noteTask,
    },
    {
      onLeaseEvent: noteLease,
      onReplaced: recorder?.record,
    },
  );
  const refusals = new Refusals(env, telemetry, admission);
  const { clientCertificates, trustedProxies, allowedFrom } = options;
  const networks = allowedFrom && new Networks(allowedFrom, { ...env, audit: control?.audit });
  const gates = { clientCertificates, trustedProxies, networks };
  const entry = new Entry({ clock, authenticator, tenantAdmission, ...gates });
  const lines = new RequestLog(env);
  const { auditDenials: denials = false, auditReads: reads = false } = options;
  const accessAudit =
    control && (denials || reads) ? new AccessAudit(control, { denials, reads }, env) : undefined;
  const requestLog = {
    note(answered: Answered, durationMs: number) {
      lines.note(answered, durationMs);
      refusals.note(answered.error, answered.caller);
      accessAudit?.note(answered);
    },
  };
  const demands = new WeakMap<Request, Demand>();
  let closing = false;
  let draining = false;
  const refuseIf = (isEnding: boolean) => {
    if (isEnding) {
      throw new ProblemError("CLOSING", "this instance is closing; retry on another one");
    }
  };
  const checkOpen = () => refuseIf(closing);

  const app = newApp(basePath);
  const served = new Set([namespace]);
  const meter = telemetry && new RequestMeter({ ...env, telemetry }, served);
  if (meter) app.use(measuredRequests(meter));
  const unobserve = telemetry && [
    observeStores(telemetry, { leases, tasks, generator, clock, tenants: served, namespace }),
    observeLimiting(telemetry, { admission, tenantAdmission, tenants, refusals }),
  ];
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
    const { method, path } = context.req;
    const caller = context.get("caller") as Caller | undefined;
    const { error } = context;
    const answered = { requestId: context.get("requestId"), method, path, caller, error };
    const { status } = context.res;
    requestLog.note({ ...answered, status }, env.clock.monotonic() - startMs);
  });
  if (oidc?.signIn) {
    app.use(servesSignIn(oidc, oidc.signIn, basePath, { ...env, trustedProxies }));
  }
  if (options.console) app.use(servesConsole(options.console, basePath, oidc?.signIn));
  // A separate middleware: the one above continues when this one throws.
  app.use(async (context, next) => {
    context.set("budgetMs", budgetOf(context.req.raw));
    // Below the base.
    const { path } = context.req;
    if (path !== "/healthz") checkOpen();
    if (path === "/readyz") refuseIf(draining);
    context.set("maxBodyBytes", limits.bodyBytes);
    context.set("arriving", (read) => {
      noteBodyAt(context.env);
      return read();
    });
    const route = routeOf(context);
    const rule = route === null ? undefined : rules.get(route);
    const need = route === null ? null : rule?.need;
    if (need === "public") return next();
    const { raw: request } = context.req;
    const [host, demand] = [context.env, demands.get(request)];
    const urgency = rule?.urgency ?? "demands";
    const known = (caller: Caller) => context.set("caller", caller);
    await entry.run({ request, route, need, urgency, host, demand }, known, (entered) => {
      context.set("checkCaller", () => entered.checkCaller());
      context.set("arriving", (read) => entered.arriving(read));
      context.set("scanning", (wait) => entered.scanning(wait));
      context.set("begin", (items) => entered.begin(items));
      context.set("measured", (work) => entered.measured(work));
      return next();
    });
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

  const rules = rulesOf(app);
  const urgencies = new Urgencies(app, rules);
  const { getPath } = app;
  const direct = new Direct({ env, getPath, entry, services, requestLog, meter, checkOpen });

  const background: Repeating[] = [
    startReaper(tasks, env),
    startTicking(services.ticks, env),
    startCollector(leases, env),
    authenticator,
    pauses,
    unhandled,
    repeat(env, "forget lease waiters that have given up", 60_000, async () =>
      leaseWaiters.forget(),
    ),
  ];
  if (keyUses) background.push(keyUses);
  if (once) background.push(startCollector(once, env, "ended records of once"));
  if (control) background.push(startCollector(control.keys, env, "ended keys", KEEP_ENDED_KEYS_MS));
  if (history && recorder) {
    background.push(recorder, startCollector(history, env, "the history of grants"));
  }

  const refuse = (chosenId: string | undefined): Refusal => {
    refusals.note(OVERLOADED);
    return refusalOf(OVERLOADED, requestIdOf(chosenId, env));
  };

  return {
    basePath,
    refusal({ method, url, requestId }) {
      if (!admission.isFull || urgencies.ofHead(method, url) !== "demands") return null;
      return refuse(requestId);
    },
    async fetch(request, connection) {
      const route = direct.routeOf(request);
      const urgency = route?.urgency ?? urgencies.of(request);
      const serve = (demand?: Demand) =>
        route ? direct.serve(route, request, connection, demand) : app.fetch(request, connection);
      if (urgency !== "demands") return serve();
      if (admission.isFull) {
        const { body, ...init } = refuse(request.headers.get(REQUEST_ID_HEADER) ?? undefined);
        return new Response(body, init);
      }
      const demand = new Demand(admission, connection?.answer !== undefined);
      if (!route) demands.set(request, demand);
      try {
        return await serve(demand);
      } finally {
        demand.end();
      }
    },
    drain() {
      draining = true;
    },
    async close() {
      closing = true;
      for (const end of unobserve ?? []) end();
      admission.close();
      refusals.close();
      activities.close();
      lines.close();
      await accessAudit?.close();
      await tenants.close();
      await Promise.all(background.map((work) => work.stop()));
    },
  };
}
