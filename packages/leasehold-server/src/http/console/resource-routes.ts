/** /v1/resource and /v1/leases/seen: a resource's grants, and what this instance recorded about it. */
import { createRoute } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { LeaseView, Page } from "leasehold";
import { leasesOfTask, pausesOf } from "leasehold/internal";
import { BOUNDS, type GrantRecord } from "leasehold/internal/wire";
import { Resource, ResourceQuery, Seen, SeenBody } from "../../protocol/index.js";
import { checkMay } from "../auth/access.js";
import { callerOf, checkResources, TASK_PREFIX } from "../auth/caller.js";
import { withoutNonce } from "../compat/by-holder.js";
import { lastGrant } from "../compat/grants.js";
import { ProblemError } from "../problems.js";
import { type AppEnv, limitBody } from "../request.js";
import { needs } from "../route-rules.js";
import { type App, answers, bodyProblems, jsonBody, otherMethods, problems } from "../routing.js";
import type { Services } from "../services.js";
import { endedAt } from "./elections.js";
import type { RecentCalls } from "./recent-calls.js";

const TAGS = ["console"];
/** The cursor after a page that had room for the last grant only. */
const BEFORE_LAST = "last";

export function resourceRoutes(app: App, services: Services): void {
  const { activities } = services;

  app.openapi(
    createRoute({
      ...needs("read"),
      method: "get",
      path: "/v1/resource",
      tags: TAGS,
      summary: "Read a resource's grants over time, its waiters and refusals",
      request: { query: ResourceQuery },
      responses: {
        200: answers("Newest grant first.", Resource),
        ...problems("INVALID_REQUEST"),
      },
    }),
    async (context) => {
      const { name: resource, limit, cursor } = context.req.valid("query");
      const caller = callerOf(context);
      checkResources(caller, [resource]);
      const { recent } = activities.of(caller.namespace);
      const { items, nextCursor } = await grantsOf(services, context, resource, limit, cursor);
      return context.json(
        {
          resource,
          items: items.map((view) => toGrantRecord(view, recent)),
          nextCursor,
          history: services.history !== undefined || resource.startsWith(TASK_PREFIX),
          pause: await pauseOf(services, context, resource),
          forMs: recent.forMs,
          waiters: recent.waiters(resource),
          refusals: recent.refusals((refused) => refused === resource),
          denied: await deniedTo(services, context, resource),
        },
        200,
      );
    },
  );
  otherMethods(app, "/v1/resource", "GET");

  app.openapi(
    createRoute({
      ...needs("read"),
      method: "post",
      path: "/v1/leases/seen",
      tags: TAGS,
      summary: "Read renewals, waiters and refusals that this instance recorded for resources",
      middleware: limitBody(BOUNDS.batchBodyBytes),
      request: jsonBody(SeenBody),
      responses: {
        200: answers("One item per resource, in order.", Seen),
        ...bodyProblems(),
      },
    }),
    async (context) => {
      const resources = context.req.valid("json");
      const caller = callerOf(context);
      checkResources(caller, resources);
      const { namespace } = caller;
      const { recent } = activities.of(namespace);
      const keys = resources.map((resource) => ({ namespace, resource }));
      const views = await services.page(context, 1, () => services.leases.get(keys));
      const { waiters, refusals } = recent.counts();
      const answer = resources.map((resource, index) => ({
        resource,
        renewals: recent.grant(views[index]?.grantId ?? "")?.renewals ?? null,
        waiters: waiters.get(resource) ?? 0,
        refusals: refusals.get(resource) ?? 0,
      }));
      return context.json(answer, 200);
    },
  );
  otherMethods(app, "/v1/leases/seen", "POST");
}

/** The last grant, then the ones that it replaced. */
async function grantsOf(
  services: Services,
  context: Context<AppEnv>,
  resource: string,
  limit: number,
  cursor: string | undefined,
): Promise<Page<LeaseView>> {
  const { history, tasks } = services;
  const { namespace } = callerOf(context);
  if (resource.startsWith(TASK_PREFIX)) {
    const id = resource.slice(TASK_PREFIX.length);
    const task = await services.page(context, 1, () => tasks.get({ namespace, id }));
    return { items: task ? leasesOfTask(namespace, task).slice(0, limit) : [], nextCursor: null };
  }
  const last = cursor === undefined ? await lastGrant(services, context, resource) : null;
  const first = last ? [last] : [];
  if (!history) return { items: first, nextCursor: null };
  const left = limit - first.length;
  if (left === 0) return { items: first, nextCursor: BEFORE_LAST };
  const from = cursor === undefined || cursor === BEFORE_LAST ? {} : { cursor };
  const query = { namespace, resource, limit: left, ...from };
  const before = await services.page(context, left, () => history.list(query));
  const items = before.items.filter(({ grantId }) => grantId !== last?.grantId);
  return { items: [...first, ...items], nextCursor: before.nextCursor };
}

function toGrantRecord(
  { namespace, resource, ...view }: LeaseView,
  recent: RecentCalls,
): GrantRecord {
  return {
    ...withoutNonce(view),
    renewals: recent.grant(view.grantId)?.renewals ?? null,
    endedAt: endedAt({ namespace, resource, ...view }),
  };
}

/** Why an acquire would be refused, whether the resource is held or not. The lease of a task is claimed, not acquired. */
async function deniedTo(services: Services, context: Context<AppEnv>, resource: string) {
  if (resource.startsWith(TASK_PREFIX)) return null;
  try {
    checkMay(callerOf(context), "hold");
    await services.checkQuota(context, resource);
    return null;
  } catch (error) {
    if (!(error instanceof ProblemError)) throw error;
    const { code, message: detail } = error;
    if (code !== "FORBIDDEN" && code !== "LIMIT_REACHED") throw error;
    return { code, detail };
  }
}

/** The pause that covers the resource, if any. */
async function pauseOf(services: Services, context: Context<AppEnv>, resource: string) {
  const { control } = services;
  if (!control) return null;
  const { namespace } = callerOf(context);
  const pauses = await services.page(context, 1, () => control.pauses.list(namespace));
  const [covering] = pausesOf(resource, pauses);
  if (!covering) return null;
  const { kind, name, actor, reason, since } = covering;
  return { kind, name, actor, reason, since };
}
