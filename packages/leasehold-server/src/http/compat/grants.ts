/** What the two dialects for single leases share: ids from the wire, and outcomes as problems. */
import type { Context } from "hono";
import type { LeaseView } from "leasehold";
import type { AcquireOutcome, RenewOutcome } from "leasehold/internal";
import { newLeaseId } from "leasehold/internal";
import { fromWireLeaseId, type ProblemCode } from "leasehold/internal/wire";
import { callerOf, checkResources, TASK_PREFIX } from "../auth/caller.js";
import { failed, invalid, ProblemError } from "../problems.js";
import { type AppEnv, checkTtl } from "../request.js";
import type { Services } from "../services.js";

/** What a lease id of the wire names. */
export interface NamedGrant {
  readonly resource: string;
  readonly leaseId: string;
}

/** @throws UNKNOWN_LEASE for a text that is no lease id */
export function grantNamed(text: string): NamedGrant {
  const grant = fromWireLeaseId(text);
  if (!grant) throw unknownLease();
  return grant;
}

export function unknownLease(): ProblemError {
  return new ProblemError("UNKNOWN_LEASE", "no lease has this id, or it ended long ago");
}

/** @throws INVALID_REQUEST when the id names another resource, or the resource is a task's */
export function chosenLeaseId(
  services: Services,
  resource: string,
  chosen: NamedGrant | undefined,
): string {
  if (resource.startsWith(TASK_PREFIX)) {
    const problem = `must not begin with ${TASK_PREFIX}: the leases on tasks are taken by /api/tasks/next`;
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
  throw new ProblemError("LEASE_ENDED", "a grant under this leaseId has ended: choose a new one");
}

type LossReason = Extract<RenewOutcome, { status: "lost" }>["reason"];

const LOST: Readonly<Record<LossReason, readonly [ProblemCode, string]>> = {
  expired: ["LEASE_EXPIRED", "the time of this grant has passed; stop"],
  taken: ["LEASE_TAKEN", "the resource has been granted anew; stop"],
  revoked: ["LEASE_REVOKED", "an operator has ended this grant; stop"],
  gone: ["UNKNOWN_LEASE", "the store does not know this grant; stop"],
};

export function lost(reason: LossReason): ProblemError {
  const [code, detail] = LOST[reason];
  return new ProblemError(code, detail, { extra: { reason } });
}

/**
 * The last grant of the resource; null when there is none.
 * @throws FORBIDDEN when the resource is not the caller's to name
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
 * Renews for as long as was said, or else as long as it was granted for.
 * @throws what became of a grant that is lost; UNKNOWN_LEASE; STORE_UNAVAILABLE, OUTCOME_UNKNOWN
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
