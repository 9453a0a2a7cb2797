/** /v1/leases: the LeaseStore port, in batches. Outcomes are values: the status is always 200. */
import { createRoute, type z } from "@hono/zod-openapi";
import type { LeaseView as View } from "leasehold";
import { checkNumber, KEEP_ENDED_MS } from "leasehold/internal";
import { BOUNDS, type LeaseView } from "leasehold/internal/wire";
import {
  AcquireAnswer,
  AcquireBody,
  CollectAnswer,
  CollectBody,
  GetAnswer,
  GetBody,
  LeaseListQuery,
  LeasePage,
  plainAcquires,
  plainReleases,
  plainRenewals,
  ReleaseAnswer,
  ReleaseBody,
  RenewAnswer,
  RenewBody,
  RevokeAnswer,
  RevokeBody,
  ServerCapabilities,
} from "../../protocol/index.js";
import { callerOf, checkNoTask, checkResources } from "../auth/caller.js";
import { checkOperates } from "../auth/scope.js";
import { withoutNonce } from "../compat/by-holder.js";
import { filteredPage, isFiltered } from "../console/lease-filters.js";
import { byCaller, checkReason, collectAudited } from "../operations/operator-action.js";
import { revokeEach } from "../operations/revoking-batches.js";
import { limitBody, type RequestScope } from "../request.js";
import { needs } from "../route-rules.js";
import {
  type App,
  answers,
  bodyProblems,
  defined,
  jsonBody,
  onlyProblems,
  otherMethods,
  problems,
} from "../routing.js";
import type { Services } from "../services.js";
import { acquireEach, releaseEach, renewEach } from "./lease-operations.js";
import { toWireOutcome } from "./outcomes.js";

const TAGS = ["leases"];

const ONE_EACH = "One outcome per request, in order.";

function operation<Name extends string>(name: Name, summary: string) {
  const path = `/v1/leases/${name}` as const;
  const middleware = limitBody(BOUNDS.batchBodyBytes);
  return { method: "post" as const, path, tags: TAGS, summary, middleware };
}

/** A route that keeps leases: the framework serves it, and direct.ts its plain requests. */
export interface KeepingRoute<Body extends z.ZodType = z.ZodType> {
  readonly route: ReturnType<typeof createRoute>;
  readonly schema: Body;
  /** Reads a body in its usual form, without the schema; null if it has another one. */
  readonly plain: (body: unknown) => z.output<Body> | null;
  readonly serve: (
    services: Services,
    scope: RequestScope,
    parsed: z.output<Body>,
  ) => Promise<unknown>;
}

function keeping<Body extends z.ZodType>(
  config: Parameters<typeof createRoute>[0],
  keeping: Omit<KeepingRoute<Body>, "route">,
): KeepingRoute {
  const request = jsonBody(keeping.schema);
  return { route: createRoute({ ...config, request }), ...keeping } as unknown as KeepingRoute;
}

export const KEEPING_ROUTES: readonly KeepingRoute[] = [
  keeping(
    {
      ...needs("hold"),
      ...operation("acquire", "Acquire leases; a repeated request returns the same grant"),
      responses: { 200: answers(ONE_EACH, AcquireAnswer), ...bodyProblems("LIMIT_REACHED") },
    },
    { schema: AcquireBody, plain: plainAcquires, serve: acquireEach },
  ),
  keeping(
    {
      ...needs("hold", "keeps"),
      ...operation("renew", "Renew leases"),
      responses: { 200: answers(ONE_EACH, RenewAnswer), ...bodyProblems() },
    },
    { schema: RenewBody, plain: plainRenewals, serve: renewEach },
  ),
  keeping(
    {
      ...needs("hold", "keeps"),
      ...operation("release", "Release leases"),
      responses: { 200: answers(ONE_EACH, ReleaseAnswer), ...bodyProblems() },
    },
    { schema: ReleaseBody, plain: plainReleases, serve: releaseEach },
  ),
];

export function leaseRoutes(app: App, services: Services): void {
  const { leases, tasks } = services;
  const wrong = bodyProblems();

  for (const { route, serve } of KEEPING_ROUTES) {
    app.openapi(route, async (context) => {
      const parsed: unknown = context.req.valid("json" as never);
      return context.json((await serve(services, context, parsed)) as object, 200);
    });
  }

  app.openapi(
    createRoute({
      ...needs("operate", "keeps"),
      ...operation("revoke", "Revoke leases of any holder, as an operator: at most 100"),
      request: jsonBody(RevokeBody),
      responses: { 200: answers(ONE_EACH, RevokeAnswer), ...wrong },
    }),
    async (context) => {
      const requests = context.req.valid("json").map(({ reason, ...request }, index) => {
        checkReason(context, `${index}.reason`, reason);
        checkNoTask(`${index}.resource`, request.resource);
        return { request: defined(request), by: byCaller(context, reason) };
      });
      checkOperates(
        callerOf(context),
        requests.map(({ request }) => request.resource),
      );
      const outcomes = await revokeEach(services, context, requests);
      return context.json(outcomes.map(toWireOutcome), 200);
    },
  );

  app.openapi(
    createRoute({
      ...needs("read"),
      ...operation("get", "Read the last grant of each resource"),
      request: jsonBody(GetBody),
      responses: {
        200: answers("A grant or null for each resource, in order.", GetAnswer),
        ...wrong,
      },
    }),
    async (context) => {
      const caller = callerOf(context);
      const { namespace } = caller;
      const resources = context.req.valid("json");
      checkResources(caller, resources);
      const keys = resources.map((resource) => ({ namespace, resource }));
      const views = await services.page(context, 1, () => leases.get(keys));
      return context.json(
        views.map((view) => view && toWireView(view)),
        200,
      );
    },
  );

  app.openapi(
    createRoute({
      ...needs("administer"),
      ...operation("collect", "Delete records of ended grants; tokens keep growing"),
      request: jsonBody(CollectBody),
      responses: { 200: answers("Number of deleted records.", CollectAnswer), ...wrong },
    }),
    async (context) => {
      const { olderThanMs, reason } = context.req.valid("json");
      const { namespace, keyId } = callerOf(context);
      // It deletes records of all tenants, so a key may delete no more than the hourly collector does.
      const leastMs = keyId === null ? 0 : KEEP_ENDED_MS;
      checkNumber("olderThanMs", olderThanMs, leastMs, Number.MAX_SAFE_INTEGER);
      const by = { ...byCaller(context, reason), namespace };
      const collect = () => collectAudited(services, olderThanMs, by);
      const collected = await services.scanAndChange(context, collect);
      return context.json({ collected }, 200);
    },
  );
  for (const name of ["acquire", "renew", "release", "revoke", "get", "collect"]) {
    otherMethods(app, `/v1/leases/${name}`, "POST");
  }

  app.openapi(
    createRoute({
      ...needs("read"),
      method: "get",
      path: "/v1/leases",
      tags: TAGS,
      summary: "List leases by prefix of the resource",
      request: { query: LeaseListQuery },
      responses: {
        200: answers("Sorted by resource, in byte order.", LeasePage),
        ...problems("INVALID_REQUEST"),
      },
    }),
    async (context) => {
      const { state, ...rest } = context.req.valid("query");
      const caller = callerOf(context);
      checkResources(caller, [rest.prefix ?? ""]);
      const { namespace } = caller;
      const query = { namespace, ...defined({ ...rest, states: state }) };
      const read = () => filteredPage((part) => leases.list(part), query);
      const { items, nextCursor } = await (isFiltered(query)
        ? services.scan(context, read)
        : services.page(context, query.limit, read));
      return context.json({ items: items.map(toWireView), nextCursor }, 200);
    },
  );
  otherMethods(app, "/v1/leases", "GET");

  app.openapi(
    createRoute({
      ...needs("read"),
      method: "get",
      path: "/v1/capabilities",
      tags: TAGS,
      summary: "Capabilities of this server's stores",
      responses: {
        200: answers("Capabilities by store.", ServerCapabilities),
        ...onlyProblems("INTERNAL"),
      },
    }),
    (context) => {
      // What a call costs the store says nothing about a call to this server.
      const { callCost, ...capabilities } = leases.capabilities;
      return context.json(
        {
          namespace: context.get("caller").namespace,
          once: services.once !== undefined,
          schedules: services.schedules !== undefined,
          taskLimits: tasks.limits !== undefined,
          maxBodyBytes: services.limits.bodyBytes,
          leases: { ...capabilities, ttl: services.ttl.leases },
          tasks: {
            ttl: services.ttl.tasks,
            watch: tasks.capabilities.watch,
          },
        },
        200,
      );
    },
  );
  otherMethods(app, "/v1/capabilities", "GET");
}

function toWireView({ namespace, ...view }: View): LeaseView {
  return withoutNonce(view);
}
