/** /api/leases for readers: lists by state, one lease by id, and the live workers. */
import { createRoute } from "@hono/zod-openapi";
import {
  LeaseOverview,
  LeaseOverviewQuery,
  LeaseRecord,
  LeaseRecordPage,
  LeaseRecordParams,
  LeaseRecordsQuery,
} from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { needs } from "../route-rules.js";
import { type App, answers, otherMethods, problems } from "../routing.js";
import type { Services } from "../services.js";
import { findLease, noHistory, pageOfLeases, type Wanted } from "./lease-records.js";
import { workersOf } from "./workers.js";

const TAGS = ["lease service"];

/** Path names of the compatibility format. */
const LISTS: Readonly<Record<string, Wanted & { readonly ended?: true }>> = {
  active: { states: ["live"] },
  expired: { states: ["expired"], ended: true },
  renewed: { renewedOnly: true },
  released: { states: ["released"], ended: true },
  revoked: { states: ["revoked"], ended: true },
};

export function leaseListRoutes(app: App, services: Services): void {
  const { history } = services;
  const wrong = problems("INVALID_REQUEST");

  app.openapi(
    createRoute({
      ...needs("readAll"),
      method: "get",
      path: "/api/leases",
      tags: TAGS,
      summary: "List leases, live and ended, with the live workers",
      request: { query: LeaseOverviewQuery },
      responses: {
        200: answers("Leases on resources, then on tasks, then replaced ones.", LeaseOverview),
        ...wrong,
      },
    }),
    async (context) => {
      const { status: states, ...query } = context.req.valid("query");
      const wanted = states ? { states } : {};
      const { namespace } = callerOf(context);
      const read = async () => ({
        page: await pageOfLeases(services, namespace, wanted, query),
        ...(await workersOf(services, namespace)),
      });
      const { page, workers, complete } = await services.scan(context, read);
      return context.json(
        {
          ...page,
          workers: workers.map(({ holds, ...worker }) => ({ ...worker, holds: [...holds] })),
          workersComplete: complete,
          history: history !== undefined,
        },
        200,
      );
    },
  );
  otherMethods(app, "/api/leases", "GET", "POST");

  for (const [name, { ended, ...wanted }] of Object.entries(LISTS)) {
    app.openapi(
      createRoute({
        ...needs("readAll"),
        method: "get",
        path: `/api/leases/${name}`,
        tags: TAGS,
        summary: `List ${name} leases`,
        request: { query: LeaseRecordsQuery },
        responses: {
          200: answers("Leases on resources, then on tasks, then replaced ones.", LeaseRecordPage),
          ...(ended ? problems("INVALID_REQUEST", "NO_HISTORY") : wrong),
        },
      }),
      async (context) => {
        if (ended && !history) throw noHistory();
        const query = context.req.valid("query");
        const { namespace } = callerOf(context);
        const read = () => pageOfLeases(services, namespace, wanted, query);
        return context.json(await services.scan(context, read), 200);
      },
    );
    otherMethods(app, `/api/leases/${name}`, "GET");
  }
}

/** Declared after all other routes under /api/leases/, because an id matches any of their names. */
export function leaseRecordRoute(app: App, services: Services): void {
  app.openapi(
    createRoute({
      ...needs("read"),
      method: "get",
      path: "/api/leases/{id}",
      tags: TAGS,
      summary: "Read a lease, live or ended",
      request: { params: LeaseRecordParams },
      responses: {
        200: answers("The lease.", LeaseRecord),
        ...problems("UNKNOWN_LEASE", "NO_HISTORY"),
      },
    }),
    async (context) =>
      context.json(await findLease(services, context, context.req.valid("param").id), 200),
  );
  otherMethods(app, "/api/leases/:id", "GET", "DELETE");
}
