/** /v1/audit: the tenant's audit entries, and verification of the chain of all tenants. */
import { createRoute } from "@hono/zod-openapi";
import {
  claimedActorOf,
  type AuditEntry as Entry,
  type Verification as Verdict,
} from "leasehold/internal";
import { AuditListQuery, AuditPage, Verification, VerifyQuery } from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { needs } from "../route-rules.js";
import { type App, answers, otherMethods, problems } from "../routing.js";
import type { Services } from "../services.js";
import { controlOf } from "./operator-action.js";
import { Verifications } from "./verifying.js";

const TAGS = ["operator"];

export function auditRoutes(app: App, services: Services): void {
  const verifications = new Verifications(services.env.clock);
  const refusals = problems("INVALID_REQUEST", "NO_CONTROL");

  app.openapi(
    createRoute({
      ...needs("operate"),
      method: "get",
      path: "/v1/audit",
      tags: TAGS,
      summary: "List actions of the tenant's operators and admins",
      request: { query: AuditListQuery },
      responses: { 200: answers("Latest first.", AuditPage), ...refusals },
    }),
    async (context) => {
      const { audit } = controlOf(services);
      const { namespace } = callerOf(context);
      const { target, action: actions, limit, cursor } = context.req.valid("query");
      const query = {
        namespace,
        limit,
        ...(target !== undefined && { target }),
        ...(actions && { actions }),
        ...(cursor !== undefined && { cursor }),
      };
      const read = () => audit.list(query);
      const { items, nextCursor } = await (actions
        ? services.scan(context, read)
        : services.page(context, limit, read));
      return context.json({ items: items.map(toWireEntry), nextCursor }, 200);
    },
  );
  otherMethods(app, "/v1/audit", "GET");

  app.openapi(
    createRoute({
      ...needs("operate"),
      method: "get",
      path: "/v1/audit/verify",
      tags: TAGS,
      summary: "Verify the audit chain of all tenants, whole or what follows an export",
      request: { query: VerifyQuery },
      responses: {
        200: answers("Whether the chain is intact, or its first wrong entry.", Verification),
        ...refusals,
      },
    }),
    async (context) => {
      const { audit } = controlOf(services);
      const { seq, hash, from } = context.req.valid("query");
      const kept = seq === undefined || hash === undefined ? undefined : { seq, hash };
      const { namespace } = callerOf(context);
      const budget = services.budget(context);
      const verdict = await budget.read(() =>
        verifications.verify(audit, namespace, [kept, from], budget.storeMs()),
      );
      return context.json(toWireVerdict(verdict), 200);
    },
  );
  otherMethods(app, "/v1/audit/verify", "GET");
}

function toWireEntry({ namespace, details: text, ...entry }: Entry) {
  const { claimedActor, ...details } = detailsOf(text);
  return { ...entry, claimedActor: claimedActorOf(text), details };
}

/** Falls back to the raw text: the table may have been edited by hand. */
function detailsOf(text: string): Record<string, unknown> {
  try {
    const details: unknown = JSON.parse(text);
    if (typeof details === "object" && details !== null) return { ...details };
  } catch {
    // Not JSON: return the raw text below.
  }
  return { unreadable: text };
}

function toWireVerdict(verdict: Verdict) {
  if (!verdict.ok) {
    return { ok: false, seq: verdict.seq, hash: null, problem: verdict.problem };
  }
  const { seq, hash } = verdict.head;
  return { ok: true, seq, hash, problem: null };
}
