/** Shared by the compatibility formats for single leases: parsing ids, and outcomes as problems. */
import type { Context } from "hono";
import type { LeaseView } from "leasehold";
import type { AcquireOutcome, RenewOutcome } from "leasehold/internal";
import { newLeaseId } from "leasehold/internal";
import { fromWireLeaseId, type ProblemCode } from "leasehold/internal/wire";
import { callerOf, checkResources, TASK_PREFIX } from "../auth/caller.js";
import { failed, invalid, ProblemError } from "../problems.js";
import { type AppEnv, checkTtl } from "../request.js";
import type { Services } from "../services.js";

/** A parsed lease id. */
export interface NamedGrant {
  readonly resource: string;
  readonly leaseId: string;
}

/** @throws UNKNOWN_LEASE if the text is not a lease id */
export function grantNamed(text: string): NamedGrant {
  const grant = fromWireLeaseId(text);
  if (!grant) throw unknownLease();
  return grant;
}

export function unknownLease(): ProblemError {
  return new ProblemError("UNKNOWN_LEASE", "no lease has this id, or it ended long ago");
}

/** @throws INVALID_REQUEST if the id names another resource, or the resource is a task's */
export function chosenLeaseId(
  services: Services,
  resource: string,
  chosen: NamedGrant | undefined,
): string {
  if (resource.startsWith(TASK_PREFIX)) {
    const problem = `must not begin with ${TASK_PREFIX}: /api/tasks/next acquires the leases on tasks`;
    throw invalid([{ path: "resource", problem }]);
  }
  if (chosen && chosen.resource !== resource) {
    throw invalid([{ path: "leaseId", problem: "must name the same resource" }]);
  }
  return chosen?.leaseId ?? newLeaseId(services.env.random);
}

export type Acquired = Extract<AcquireOutcome, { status: "acquired" }>;
export type Held = Extract<AcquireOutcome, { status: "held" }>;

/** @throws LEASE_ENDED, STORE_UNAVAILABLE, OUTCOME_UNKNOWN */
export function acquiredOrHeld(outcome: AcquireOutcome): Acquired | Held {
  if (outcome.status === "failed") throw failed(outcome);
  if (outcome.status !== "ended") return outcome;
  throw new ProblemError(
    "LEASE_ENDED",
    "a grant under this leaseId has ended: choose a new leaseId",
  );
}

type LossReason = Extract<RenewOutcome, { status: "lost" }>["reason"];

const LOST: Readonly<Record<LossReason, readonly [ProblemCode, string]>> = {
  expired: ["LEASE_EXPIRED", "this grant has expired; stop"],
  taken: ["LEASE_TAKEN", "the resource has been granted anew; stop"],
  revoked: ["LEASE_REVOKED", "an operator has revoked this grant; stop"],
  gone: ["UNKNOWN_LEASE", "the store does not know this grant; stop"],
};

export function lost(reason: LossReason): ProblemError {
  const [code, detail] = LOST[reason];
  return new ProblemError(code, detail, { extra: { reason } });
}

/**
 * The last grant of the resource; null if there is none.
 * @throws FORBIDDEN if the caller may not use the resource
 */
export async function lastGrant(
  services: Services,
  context: Context<AppEnv>,
  resource: string,
): Promise<LeaseView | null> {
  const caller = callerOf(context);
  checkResources(caller, [resource]);
  const { namespace } = caller;
  const { leases } = services;
  const budget = services.budget(context);
  const [view] = await budget.read(() => leases.get([{ namespace, resource }]));
  return view ?? null;
}

/**
 * Renews with the requested TTL, or else with the TTL of the grant.
 * @throws LEASE_EXPIRED, LEASE_TAKEN, LEASE_REVOKED, UNKNOWN_LEASE, STORE_UNAVAILABLE, OUTCOME_UNKNOWN
 */
export async function renewGrant(
  services: Services,
  context: Context<AppEnv>,
  grant: NamedGrant,
  requestedMs: number | undefined,
): Promise<Extract<RenewOutcome, { status: "renewed" }>> {
  if (requestedMs !== undefined) checkTtl("ttlMs", requestedMs, services.ttl.leases);
  const ttlMs = requestedMs ?? (await lastGrant(services, context, grant.resource))?.ttlMs;
  if (ttlMs === undefined) throw unknownLease();
  const outcome = await services.leaseCalls(context, [grant]).renew({ ...grant, ttlMs });
  if (outcome.status === "failed") throw failed(outcome);
  if (outcome.status === "lost") throw lost(outcome.reason);
  return outcome;
}
