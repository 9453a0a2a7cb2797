/** /api/leases for holders, in the compatibility format of the lease service. */
import { createRoute } from "@hono/zod-openapi";
import type { Context } from "hono";
import type { LeaseView } from "leasehold";
import { grantIdOf, inTwoSteps } from "leasehold/internal";
import { BOUNDS, fromWireGrantId, toWireLeaseId } from "leasehold/internal/wire";
import type { z } from "zod";
import {
  LeaseRecord,
  LeaseRecordParams,
  NewLeaseBody,
  NewLeaseRecord,
  type ReleaseLeaseBody as ReleaseBody,
  ReleaseLeaseBody,
  RenewLeaseBody,
} from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { toLeaseRecord } from "../console/lease-records.js";
import { byCaller } from "../operations/operator-action.js";
import { failed, invalid, ProblemError } from "../problems.js";
import { type AppEnv, limitBody, ttlOf } from "../request.js";
import { needs } from "../route-rules.js";
import { type App, answers, bodyProblems, jsonBody, otherMethods } from "../routing.js";
import type { Services } from "../services.js";
import { grantByHolder, newGrantByHolder } from "./by-holder.js";
import {
  acquiredOrHeld,
  chosenLeaseId,
  lastGrant,
  lost,
  type NamedGrant,
  notLastGrant,
  renewGrant,
  unknownLease,
} from "./grants.js";

const TAGS = ["lease service"];
const REFUSALS = bodyProblems(
  "UNKNOWN_LEASE",
  "LEASE_EXPIRED",
  "LEASE_TAKEN",
  "LEASE_REVOKED",
  "LEASE_RELEASED",
  "LEASE_ID_REQUIRED",
);

/** The fields that identify a grant in a request. */
type Grantee = z.infer<typeof ReleaseBody>;

export function leaseServiceRoutes(app: App, services: Services): void {
  const middleware = limitBody(BOUNDS.bodyBytes);

  app.openapi(
    createRoute({
      ...needs("hold"),
      method: "post",
      path: "/api/leases",
      tags: TAGS,
      summary: "Acquire a lease if the resource is free",
      middleware,
      request: jsonBody(NewLeaseBody),
      responses: {
        201: answers("The new lease.", NewLeaseRecord),
        ...bodyProblems("LEASE_HELD", "LEASE_ENDED", "LIMIT_REACHED"),
      },
    }),
    async (context) => {
      const { resource, holder, ttlField, leaseId: chosen, ...asked } = context.req.valid("json");
      const ttlMs = ttlOf(ttlField, asked.ttlMs, services.ttl.leases);
      const own = { leaseId: chosenLeaseId(services, resource, chosen) };
      const grant = chosen
        ? own
        : newGrantByHolder(services, callerOf(context).namespace, resource, holder);
      await services.reserveQuota(context, "leases", [resource]);
      const calls = services.leaseCalls(context, [{ resource }]);
      const outcome = acquiredOrHeld(await calls.acquire({ resource, holder, ttlMs, ...grant }));
      if (outcome.status === "held") {
        const { holder: by, grantId, remainingMs } = outcome;
        throw new ProblemError("LEASE_HELD", `the lease is held by ${by}`, {
          extra: { holder: by, grantId, remainingMs },
        });
      }
      const view = await readGrant(services, context, { resource, leaseId: grant.leaseId });
      const leaseId = toWireLeaseId(resource, grant.leaseId);
      return context.json({ ...toLeaseRecord(view), leaseId }, 201);
    },
  );

  app.openapi(
    createRoute({
      ...needs("hold", "keeps"),
      method: "put",
      path: "/api/leases/renew",
      tags: TAGS,
      summary: "Renew a lease; default TTL: that of the grant",
      middleware,
      request: jsonBody(RenewLeaseBody),
      responses: {
        200: answers("Renewed. The token stays the same.", LeaseRecord),
        ...REFUSALS,
      },
    }),
    async (context) => {
      const { ttlMs, ttlField, ...grantee } = context.req.valid("json");
      const { byHolder: _, ...grant } = await identifyGrant(services, context, grantee);
      await renewGrant(services, context, grant, { ttlMs, ttlField });
      return context.json(toLeaseRecord(await readGrant(services, context, grant)), 200);
    },
  );
  otherMethods(app, "/api/leases/renew", "PUT");

  app.openapi(
    createRoute({
      ...needs("hold", "keeps"),
      method: "delete",
      path: "/api/leases/release",
      tags: TAGS,
      summary: "Release a lease",
      middleware,
      request: jsonBody(ReleaseLeaseBody),
      responses: {
        200: answers("Released. The same for a repeated request.", LeaseRecord),
        ...REFUSALS,
      },
    }),
    async (context) => {
      const grant = await identifyGrant(services, context, context.req.valid("json"));
      return context.json(await releaseAudited(services, context, grant), 200);
    },
  );
  otherMethods(app, "/api/leases/release", "DELETE");

  app.openapi(
    createRoute({
      ...needs("hold", "keeps"),
      method: "delete",
      path: "/api/leases/{id}",
      tags: TAGS,
      summary: "Release one lease, by its id",
      middleware,
      request: { params: LeaseRecordParams, ...jsonBody(ReleaseLeaseBody) },
      responses: {
        200: answers("Released. The same for a repeated request.", LeaseRecord),
        ...REFUSALS,
      },
    }),
    async (context) => {
      const named = fromWireGrantId(context.req.valid("param").id);
      if (!named) throw unknownLease();
      const grant = await identifyGrant(services, context, context.req.valid("json"));
      if (grant.resource !== named.resource) {
        throw invalid([
          { path: "resource", problem: "must name the resource of the lease in the path" },
        ]);
      }
      if (grantIdOf(grant.leaseId) !== named.grantId) {
        throw await notLastGrant(services, context, named.resource, { grantId: named.grantId });
      }
      return context.json(await releaseAudited(services, context, grant), 200);
    },
  );
}

/** `byHolder`: the request has named the holder, and nothing proves that its caller is this holder. */
type Identified = NamedGrant & { readonly byHolder: boolean };

/**
 * The grant that a body identifies: by leaseId, or the last grant of the resource if it is addressed by
 * its holder's name.
 */
async function identifyGrant(
  services: Services,
  context: Context<AppEnv>,
  { leaseId: grant, resource, holder, fencingToken: token }: Grantee,
): Promise<Identified> {
  const name = grant?.resource ?? resource;
  if (name === undefined) throw unknownLease();
  if (grant && resource !== undefined && resource !== name) {
    throw invalid([{ path: "leaseId", problem: "must name the same resource" }]);
  }
  const proven = grant && { ...grant, byHolder: false };
  if (proven && holder === undefined && token === undefined) return proven;
  const view = await lastGrant(services, context, name);
  if (!view) throw unknownLease();
  const named = { ...(holder !== undefined && { holder }), ...(token !== undefined && { token }) };
  if ((holder ?? view.holder) !== view.holder || (token ?? view.token) !== view.token) {
    throw await notLastGrant(services, context, name, named);
  }
  return proven ?? { ...grantByHolder(view), byHolder: true };
}

/** Reads the grant after it was granted or renewed. */
async function readGrant(
  services: Services,
  context: Context<AppEnv>,
  { resource, leaseId }: NamedGrant,
): Promise<LeaseView> {
  const view = await lastGrant(services, context, resource);
  // It may have expired or ended in between.
  if (view?.grantId !== grantIdOf(leaseId)) throw lost("taken");
  return view;
}

/**
 * Releases, with an audit entry if the caller has a key with more than the role holder and knows the grant by its
 * holder's name alone: it then ends the lease of another holder, as a revocation does.
 */
function releaseAudited(
  services: Services,
  context: Context<AppEnv>,
  { byHolder, ...grant }: Identified,
) {
  const { control } = services;
  const { namespace, keyId, role } = callerOf(context);
  if (!control || !byHolder || keyId === null || role === "holder") {
    return release(services, context, grant);
  }
  const by = byCaller(context, undefined);
  const act = { ...by, namespace, action: "lease.release" as const, target: grant.resource };
  return inTwoSteps(control.audit, control.actors).perform(act, async () => {
    const value = await release(services, context, grant);
    const { holder, grantId, fencingToken, state } = value;
    return { value, details: { holder, grantId, fencingToken, state } };
  });
}

async function release(services: Services, context: Context<AppEnv>, grant: NamedGrant) {
  const before = await lastGrant(services, context, grant.resource);
  if (!before) throw unknownLease();
  const outcome = await services.leaseCalls(context, [grant]).release(grant);
  if (outcome.status === "failed") throw failed(outcome);
  if (outcome.status === "notHeld") {
    const { grantId, state } = before;
    const named = grantIdOf(grant.leaseId);
    if (grantId === named && (state === "expired" || state === "revoked")) throw lost(state);
    throw await notLastGrant(services, context, grant.resource, { grantId: named });
  }
  const after = await lastGrant(services, context, grant.resource);
  // A new grant may exist already: then return the earlier state, marked as released.
  const ended =
    after?.grantId === before.grantId
      ? after
      : { ...before, state: "released" as const, remainingMs: 0 };
  return toLeaseRecord(ended);
}
