/** /v1/once: the OnceStore port. As of /v1/leases, outcomes of holders are values: their status is always 200. */
import { createRoute } from "@hono/zod-openapi";
import type { OnceStore, OnceView } from "leasehold/internal";
import { resourceOf } from "leasehold/internal";
import { BOUNDS, type OnceRecord as Wire } from "leasehold/internal/wire";
import {
  FailOnceAnswer,
  FailOnceBody,
  isOnceKey,
  OnceListQuery,
  OncePage,
  OnceParams,
  OnceRecord,
  SucceedAnswer,
  SucceedBody,
} from "../../protocol/index.js";
import { callerOf, checkResources } from "../auth/caller.js";
import { toWireOutcome } from "../native/outcomes.js";
import { ProblemError } from "../problems.js";
import { limitBody, type RequestScope } from "../request.js";
import { needs } from "../route-rules.js";
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

const TAGS = ["once"];
/** A page is at most so large, in characters of JSON: each of its values may have 64 KB. */
const PAGE_CHARACTERS = 1024 * 1024;
/** Records of one read. */
const PART = 20;

/** @throws NO_ONCE */
export function onceOf({ once }: Pick<Services, "once">): OnceStore {
  if (once) return once;
  throw new ProblemError(
    "NO_ONCE",
    "the lease on a key must be in the database of its record, so this needs a server on PostgreSQL or PGlite that has its leases there too, without --control",
  );
}

export function onceRoutes(app: App, services: Services): void {
  const count = (outcome: "ran" | "failed" | "lost") =>
    services.env.telemetry?.count("leasehold.once.runs", { outcome });
  const report = <Name extends string>(name: Name, summary: string) => ({
    ...needs("hold", "keeps"),
    method: "post" as const,
    path: `/v1/once/${name}` as const,
    tags: TAGS,
    summary,
    middleware: limitBody(BOUNDS.batchBodyBytes),
  });

  app.openapi(
    createRoute({
      ...report("succeed", "Record the success of a key's work, which ends the lease on the key"),
      request: jsonBody(SucceedBody),
      responses: {
        200: answers("`done`: another holder was faster.", SucceedAnswer),
        ...bodyProblems("NO_ONCE"),
      },
    }),
    async (context) => {
      const once = onceOf(services);
      const { leaseId: grant, ...request } = context.req.valid("json");
      const outcome = await ending(services, context, grant, (namespace, timeoutMs) =>
        once.succeed({ ...request, ...grant, namespace }, { timeoutMs }),
      );
      if (outcome.status !== "failed") count(outcome.status === "recorded" ? "ran" : "lost");
      return context.json(toWireOutcome(outcome), 200);
    },
  );

  app.openapi(
    createRoute({
      ...report("fail", "Count a failure of a key's work, which ends the lease on the key"),
      request: jsonBody(FailOnceBody),
      responses: {
        200: answers("The failures of the key so far.", FailOnceAnswer),
        ...bodyProblems("NO_ONCE"),
      },
    }),
    async (context) => {
      const once = onceOf(services);
      const { leaseId: grant, ...request } = context.req.valid("json");
      const outcome = await ending(services, context, grant, (namespace, timeoutMs) =>
        once.fail({ ...request, ...grant, namespace }, { timeoutMs }),
      );
      if (outcome.status === "recorded") count("failed");
      return context.json(toWireOutcome(outcome), 200);
    },
  );

  app.openapi(
    createRoute({
      ...needs("read"),
      method: "get",
      path: "/v1/once",
      tags: TAGS,
      summary: "List keys whose work has succeeded or failed, by prefix",
      request: { query: OnceListQuery },
      responses: {
        200: answers(
          "Sorted by key, in byte order. Fewer than `limit` if their values are large.",
          OncePage,
        ),
        ...problems("INVALID_REQUEST", "NO_ONCE"),
      },
    }),
    async (context) => {
      const { state, ...rest } = context.req.valid("query");
      const caller = callerOf(context);
      checkResources(caller, [resourceOf(rest.prefix ?? "")]);
      const query = { ...defined({ ...rest, states: state }), namespace: caller.namespace };
      const once = onceOf(services);
      const list = (part: ListQuery) => services.scan(context, () => once.list(part));
      return context.json(await pageOf(list, query), 200);
    },
  );
  otherMethods(app, "/v1/once", "GET");

  app.openapi(
    createRoute({
      ...needs("read"),
      method: "get",
      path: "/v1/once/{key}",
      tags: TAGS,
      summary: "Read the record of a key",
      request: { params: OnceParams },
      responses: {
        200: answers("The record.", OnceRecord),
        ...problems("UNKNOWN_ONCE", "NO_ONCE"),
      },
    }),
    async (context) => {
      const { key } = context.req.valid("param");
      const caller = callerOf(context);
      checkResources(caller, [resourceOf(key)]);
      const once = onceOf(services);
      const { namespace } = caller;
      const read = () => once.get({ namespace, key });
      const view = isOnceKey(key) ? await services.page(context, 1, read) : null;
      if (!view) throw new ProblemError("UNKNOWN_ONCE", "no work has succeeded or failed under it");
      return context.json(toWireRecord(view), 200);
    },
  );
  otherMethods(app, "/v1/once/:key", "GET", "DELETE");
}

/** Runs a call that records what became of a key's work, and with it ends the lease on the key. */
function ending<Outcome extends { readonly status: string }>(
  services: Services,
  scope: RequestScope,
  { key, leaseId }: { readonly key: string; readonly leaseId: string },
  record: (namespace: string, timeoutMs: number) => Promise<Outcome>,
): Promise<Outcome> {
  const resource = resourceOf(key);
  return services
    .leaseCalls(scope, [{ resource }])
    .releasedBy({ resource, leaseId }, (timeoutMs) => record(callerOf(scope).namespace, timeoutMs));
}

type ListQuery = Parameters<OnceStore["list"]>[0];

async function pageOf(
  list: OnceStore["list"],
  { limit, cursor, ...query }: ListQuery & { readonly limit: number },
) {
  const items: Wire[] = [];
  let characters = 0;
  let next: string | null = cursor ?? null;
  do {
    const part = {
      limit: Math.min(PART, limit - items.length),
      ...(next !== null && { cursor: next }),
    };
    const page = await list({ ...query, ...part });
    const records = page.items.map(toWireRecord);
    items.push(...records);
    characters += JSON.stringify(records).length;
    next = page.nextCursor;
  } while (next !== null && items.length < limit && characters < PAGE_CHARACTERS);
  return { items, nextCursor: next };
}

function toWireRecord({ namespace, ...record }: OnceView): Wire {
  return record;
}
