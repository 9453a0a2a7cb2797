/** /v1/kinds: publish and read the JSON Schemas of kinds. New tasks are checked against them. */
import { createRoute } from "@hono/zod-openapi";
import { type KindStore, loadJsonSchemas } from "leasehold/internal";
import { type Kind as KindOfWire, LIMITS } from "leasehold/internal/wire";
import {
  Kind,
  KindListQuery,
  KindPage,
  KindParams,
  KindPublished,
  KindWithdrawn,
  kindOf,
  PublishKindBody,
  ReasonQuery,
} from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { byCaller, checkReason, controlOf } from "../operations/operator-action.js";
import { failed, invalid, ProblemError, tooMany } from "../problems.js";
import { limitBody } from "../request.js";
import {
  type App,
  answers,
  bodyProblems,
  defined,
  jsonBody,
  otherMethods,
  problems,
} from "../routing.js";
import type { Services } from "../services.js";

const TAGS = ["kinds"];
/** Each has a schema of up to 64 KiB. */
const PAGE = 20;
const PATH = "/v1/kinds/{kind}/{version}";

/** @throws NO_KINDS */
function kindsOf({ kinds }: Pick<Services, "kinds">): KindStore {
  if (kinds) return kinds;
  throw new ProblemError("NO_KINDS", "its host gave it no store of kinds, or cannot end a check");
}

export function kindRoutes(app: App, services: Services): void {
  app.openapi(
    createRoute({
      method: "put",
      path: PATH,
      tags: TAGS,
      summary: "Publish the schema of a version of a kind",
      middleware: limitBody(LIMITS.batchBodyBytes),
      request: { params: KindParams, ...jsonBody(PublishKindBody) },
      responses: {
        200: answers(
          "A publication that changes nothing is `none`. Within a second, all servers check new tasks against it.",
          KindPublished,
        ),
        ...bodyProblems("LIMIT_REACHED", "NO_KINDS"),
      },
    }),
    async (context) => {
      const kinds = kindsOf(services);
      const { kind, version } = named(context.req.valid("param"));
      const { schema: wanted, publishedBy } = context.req.valid("json");
      const { namespace, actor } = callerOf(context);
      const schema = (await loadJsonSchemas()).schemaText(wanted);
      const timeoutMs = services.budget(context).storeMs();
      const request = { namespace, kind, version, schema, by: publishedBy ?? actor };
      const outcome = await kinds.publish(request, { timeoutMs });
      if (outcome.status === "failed") throw failed(outcome);
      if (outcome.status === "full") {
        const detail =
          "a tenant may publish at most 1,000 versions of kinds: withdraw those that no program publishes";
        throw tooMany("LIMIT_REACHED", detail, 60_000);
      }
      return context.json({ kind, version, change: outcome.change }, 200);
    },
  );

  app.openapi(
    createRoute({
      method: "get",
      path: "/v1/kinds",
      tags: TAGS,
      summary: "List published kinds",
      request: { query: KindListQuery },
      responses: {
        200: answers("Sorted by kind and version; at most 20 in one page.", KindPage),
        ...problems("INVALID_REQUEST", "NO_KINDS"),
      },
    }),
    async (context) => {
      const { limit, kind, cursor } = context.req.valid("query");
      const { namespace } = callerOf(context);
      const query = { namespace, limit: Math.min(limit, PAGE), ...defined({ kind, cursor }) };
      const kinds = kindsOf(services);
      const page = await services.page(context, query.limit, () => kinds.list(query));
      return context.json({ items: [...page.items], nextCursor: page.nextCursor }, 200);
    },
  );
  otherMethods(app, "/v1/kinds", "GET");

  app.openapi(
    createRoute({
      method: "get",
      path: PATH,
      tags: TAGS,
      summary: "Read the schema of a version of a kind",
      request: { params: KindParams },
      responses: {
        200: answers("The version, as it is published.", Kind),
        ...problems("INVALID_REQUEST", "UNKNOWN_KIND", "NO_KINDS"),
      },
    }),
    async (context) => {
      const kinds = kindsOf(services);
      const key = kindOf(context.req.valid("param"));
      const { namespace } = callerOf(context);
      const read = async () => (key ? publishedKind(kinds, namespace, key) : null);
      const found = await services.page(context, 1, read);
      if (!found) throw new ProblemError("UNKNOWN_KIND", "this version is not published");
      return context.json(found, 200);
    },
  );

  app.openapi(
    createRoute({
      method: "delete",
      path: PATH,
      tags: TAGS,
      summary: "Withdraw the schema of a version of a kind",
      request: { params: KindParams, query: ReasonQuery },
      responses: {
        200: answers("Withdrawn, now or before. Tasks are checked no more.", KindWithdrawn),
        ...problems("INVALID_REQUEST", "NO_KINDS", "NO_CONTROL"),
      },
    }),
    async (context) => {
      kindsOf(services);
      const control = controlOf(services);
      const { kind, version } = named(context.req.valid("param"));
      const { reason } = context.req.valid("query");
      checkReason(context, "reason", reason);
      const { namespace } = callerOf(context);
      const by = byCaller(context, reason);
      const act = { ...by, namespace, action: "kind.withdraw" as const, target: kind };
      const wasPublished = await services.budget(context).change(() =>
        control.perform(act, async ({ kinds }) => {
          const value = await kinds.withdraw({ namespace, kind, version });
          return { value, details: { version, wasPublished: value } };
        }),
      );
      return context.json({ kind, version, wasPublished }, 200);
    },
  );
  otherMethods(app, "/v1/kinds/:kind/:version", "GET", "PUT", "DELETE");
}

/** @throws INVALID_REQUEST if no kind can have the name, or the version */
function named(params: { readonly kind: string; readonly version: string }) {
  const key = kindOf(params);
  if (key) return key;
  throw invalid([
    { path: "kind", problem: "or its version in the path is one that none can have" },
  ]);
}

/** Null if it is not published. */
async function publishedKind(
  kinds: KindStore,
  namespace: string,
  { kind, version }: { readonly kind: string; readonly version: number },
): Promise<KindOfWire | null> {
  // The page that begins before this version.
  const cursor = version === 1 ? {} : { cursor: `${version - 1}:${kind}` };
  const { items } = await kinds.list({ namespace, kind, limit: 1, ...cursor });
  const [found] = items;
  return found?.version === version ? found : null;
}
