/** /v1/locks: one lock per request, for any HTTP client. */
import { createRoute } from "@hono/zod-openapi";
import type { LeaseView } from "leasehold";
import { grantIdOf, invariant } from "leasehold/internal";
import { BOUNDS, toWireLeaseId } from "leasehold/internal/wire";
import {
  ForceUnlock,
  ForceUnlockBody,
  LeaseIdParams,
  type Lock,
  LockAnswer,
  LockBody,
  LockListQuery,
  LockPage,
  LockReleased,
  LockRenewBody,
  LockRenewed,
  Lock as LockSchema,
} from "../../protocol/index.js";
import { callerOf, checkResources } from "../auth/caller.js";
import { checkOperates } from "../auth/scope.js";
import { excludesOthers, filteredPage } from "../console/lease-filters.js";
import { byCaller, controlOf } from "../operations/operator-action.js";
import { failed } from "../problems.js";
import { emptyBodyIsNone, limitBody, ttlOf } from "../request.js";
import { needs } from "../route-rules.js";
import {
  type App,
  answers,
  bodyProblems,
  defined,
  jsonBody,
  optionalJsonBody,
  otherMethods,
  problems,
} from "../routing.js";
import type { Services } from "../services.js";
import { withoutNonce } from "./by-holder.js";
import {
  acquiredOrHeld,
  chosenLeaseId,
  grantNamed,
  lastGrant,
  lastingMs,
  renewGrant,
  unknownLease,
} from "./grants.js";

const TAGS = ["locks"];
const LOST_PROBLEMS = [
  "UNKNOWN_LEASE",
  "LEASE_EXPIRED",
  "LEASE_TAKEN",
  "LEASE_REVOKED",
  "LEASE_RELEASED",
] as const;

export function lockRoutes(app: App, services: Services): void {
  const { leases } = services;
  const middleware = limitBody(BOUNDS.bodyBytes);

  app.openapi(
    createRoute({
      ...needs("hold"),
      method: "post",
      path: "/v1/locks/acquire",
      tags: TAGS,
      summary: "Acquire a lock if it is free",
      middleware,
      request: jsonBody(LockBody),
      responses: {
        200: answers("The new lock, or the current holder.", LockAnswer),
        ...bodyProblems("LEASE_ENDED", "LIMIT_REACHED"),
      },
    }),
    async (context) => {
      const { resource, ownerId, ttlField, leaseId: chosen, ...asked } = context.req.valid("json");
      const ttlMs = ttlOf(ttlField, asked.ttlMs, services.ttl.leases);
      const leaseId = chosenLeaseId(services, resource, chosen);
      const request = { resource, leaseId, holder: ownerId, ttlMs };
      await services.reserveQuota(context, "leases", [resource]);
      const outcome = acquiredOrHeld(
        await services.leaseCalls(context, [request]).acquire(request),
      );
      if (outcome.status === "held") {
        const { holder, grantId, remainingMs } = outcome;
        return context.json(
          { acquired: false as const, resource, ownerId: holder, grantId, remainingMs },
          200,
        );
      }
      const { token: fencingToken, remainingMs, expiresAt } = outcome;
      const secret = toWireLeaseId(resource, leaseId);
      const grantId = grantIdOf(leaseId);
      return context.json(
        {
          acquired: true as const,
          leaseId: secret,
          resource,
          ownerId,
          grantId,
          fencingToken,
          ttlMs: outcome.ttlMs,
          remainingMs,
          expiresAt,
        },
        200,
      );
    },
  );
  otherMethods(app, "/v1/locks/acquire", "POST");

  app.openapi(
    createRoute({
      ...needs("operate", "keeps"),
      method: "post",
      path: "/v1/locks/force-unlock",
      tags: TAGS,
      summary: "Revoke a lock of any holder, as an operator, with an audit entry",
      middleware,
      request: jsonBody(ForceUnlockBody),
      responses: {
        200: answers("The audit entry and the outcome.", ForceUnlock),
        ...bodyProblems("NO_CONTROL"),
      },
    }),
    async (context) => {
      const { reason, actorId: claimed, ...request } = context.req.valid("json");
      controlOf(services);
      checkOperates(callerOf(context), [request.resource]);
      const by = byCaller(context, reason, claimed);
      const calls = services.leaseCalls(context, [request]);
      const { outcome, entry } = await calls.revoke(defined(request), by);
      if (outcome.status === "failed") throw failed(outcome);
      invariant(entry, "each audited revocation has an entry");
      const { actor: actorId, at: createdAt, seq: auditSeq, action: auditAction } = entry;
      const done = outcome.status === "revoked" ? outcome : null;
      return context.json(
        {
          action: "FORCE_UNLOCK" as const,
          resource: request.resource,
          actorId,
          claimedActor: by.claimedActor ?? null,
          reason,
          createdAt,
          auditSeq,
          auditAction,
          revoked: done !== null,
          unlocked: done?.freeInMs === 0,
          why: outcome.status === "revoked" ? null : outcome.status,
          fencingToken: done?.token ?? null,
          freeInMs: done?.freeInMs ?? null,
        },
        200,
      );
    },
  );
  otherMethods(app, "/v1/locks/force-unlock", "POST");

  app.openapi(
    createRoute({
      ...needs("read"),
      method: "get",
      path: "/v1/locks",
      tags: TAGS,
      summary: "List held locks, and revoked ones that are not free yet, by prefix of the resource",
      request: { query: LockListQuery },
      responses: {
        200: answers("Sorted by resource, in byte order.", LockPage),
        ...problems("INVALID_REQUEST"),
      },
    }),
    async (context) => {
      const { resource, ...query } = context.req.valid("query");
      if (resource !== undefined) {
        const view = await lastGrant(services, context, resource);
        const items = view && excludesOthers(view) ? [toLock(view)] : [];
        return context.json({ items, nextCursor: null }, 200);
      }
      const caller = callerOf(context);
      checkResources(caller, [query.prefix ?? ""]);
      const { namespace } = caller;
      const asked = { ...defined(query), namespace, states: ["live", "revoked"] as const };
      const read = () => filteredPage((part) => leases.list(part), asked, excludesOthers);
      const { items, nextCursor } = await services.scan(context, read);
      return context.json({ items: items.map(toLock), nextCursor }, 200);
    },
  );
  otherMethods(app, "/v1/locks", "GET");

  app.openapi(
    createRoute({
      ...needs("hold", "keeps"),
      method: "post",
      path: "/v1/locks/{leaseId}/renew",
      tags: TAGS,
      summary: "Renew a lock; default TTL: that of the grant",
      middleware: [middleware, emptyBodyIsNone] as const,
      request: { params: LeaseIdParams, ...optionalJsonBody(LockRenewBody) },
      responses: {
        200: answers("Renewed. The token stays the same.", LockRenewed),
        ...bodyProblems(...LOST_PROBLEMS),
      },
    }),
    async (context) => {
      const grant = grantNamed(context.req.valid("param").leaseId);
      const renewed = await renewGrant(services, context, grant, context.req.valid("json"));
      const { token: fencingToken, ttlMs, remainingMs, expiresAt } = renewed;
      const { resource, leaseId } = grant;
      const names = { renewed: true as const, resource, grantId: grantIdOf(leaseId) };
      return context.json({ ...names, fencingToken, ttlMs, remainingMs, expiresAt }, 200);
    },
  );
  otherMethods(app, "/v1/locks/:leaseId/renew", "POST");

  app.openapi(
    createRoute({
      ...needs("hold", "keeps"),
      method: "delete",
      path: "/v1/locks/{leaseId}",
      tags: TAGS,
      summary: "Release a lock",
      request: { params: LeaseIdParams },
      responses: {
        200: answers("Released, now or before.", LockReleased),
        ...problems("UNKNOWN_LEASE"),
      },
    }),
    async (context) => {
      const grant = grantNamed(context.req.valid("param").leaseId);
      const outcome = await services.leaseCalls(context, [grant]).release(grant);
      if (outcome.status === "failed") throw failed(outcome);
      return context.json({ released: outcome.status === "released" }, 200);
    },
  );

  app.openapi(
    createRoute({
      ...needs("read"),
      method: "get",
      path: "/v1/locks/{leaseId}",
      tags: TAGS,
      summary: "Read a lock that is held under this lease id",
      request: { params: LeaseIdParams },
      responses: {
        200: answers("The lock.", LockSchema),
        ...problems("UNKNOWN_LEASE"),
      },
    }),
    async (context) => {
      const { resource, leaseId } = grantNamed(context.req.valid("param").leaseId);
      const view = await lastGrant(services, context, resource);
      if (view?.state !== "live" || view.grantId !== grantIdOf(leaseId)) throw unknownLease();
      return context.json(toLock(view), 200);
    },
  );
  otherMethods(app, "/v1/locks/:leaseId", "GET", "DELETE");
}

function toLock(view: LeaseView): Lock {
  const { resource, holder, grantId, token, remainingMs, expiresAt } = view;
  const { state, freeInMs = null, grantedAt, renewedAt } = view;
  return {
    resource,
    ownerId: holder,
    grantId,
    fencingToken: token,
    state: state === "live" ? state : "revoked",
    ttlMs: lastingMs(view),
    remainingMs,
    expiresAt,
    freeInMs,
    createdAt: grantedAt,
    renewedAt,
    metadata: withoutNonce(view).metadata,
  };
}
