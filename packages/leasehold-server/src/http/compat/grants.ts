/** Shared by the compatibility formats for single leases: parsing ids, and outcomes as problems. */
import type { Context } from "hono";
import type { LeaseView } from "leasehold";
import type { AcquireOutcome, RenewOutcome } from "leasehold/internal";
import { grantIdOf, newLeaseId } from "leasehold/internal";
import { BOUNDS, fromWireLeaseId, type ProblemCode } from "leasehold/internal/wire";
import type { NamedTtl } from "../../protocol/index.js";
import { callerOf, checkNoTask, checkResources } from "../auth/caller.js";
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
  checkNoTask("resource", resource);
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

type LossReason = Extract<RenewOutcome, { status: "lost" }>["reason"] | "released";

const LOST: Readonly<Record<LossReason, readonly [ProblemCode, string]>> = {
  expired: ["LEASE_EXPIRED", "this grant has expired; stop"],
  taken: ["LEASE_TAKEN", "the resource has been granted anew; stop"],
  revoked: ["LEASE_REVOKED", "an operator has revoked this grant; stop"],
  released: ["LEASE_RELEASED", "this grant was released; stop"],
  gone: ["UNKNOWN_LEASE", "the store does not know this grant; stop"],
};

export function lost(reason: LossReason): ProblemError {
  const [code, detail] = LOST[reason];
  return new ProblemError(code, detail, { extra: { reason } });
}

/**
 * The problem of a request about a grant that is not the resource's last one: LEASE_TAKEN for a former
 * grant. A store knows the last grant only, so former ones come from what this instance has recorded and
 * from the history. If neither has the grant, the caller may never have held the lease: UNKNOWN_LEASE.
 */
export async function notLastGrant(
  services: Services,
  context: Context<AppEnv>,
  resource: string,
  named: Partial<Pick<LeaseView, "grantId" | "holder" | "token">>,
): Promise<ProblemError> {
  const { activities, history } = services;
  const { namespace } = callerOf(context);
  const { grantId } = named;
  if (grantId !== undefined && activities.of(namespace).recent.grant(grantId)) return lost("taken");
  const budget = services.budget(context);
  const former = async (): Promise<boolean> => {
    if (!history) return false;
    if (grantId !== undefined)
      return (await history.find({ namespace, resource }, grantId)) !== null;
    const { items } = await history.list({ namespace, resource, limit: BOUNDS.page });
    return items.some(
      ({ holder, token }) =>
        (named.holder ?? holder) === holder && (named.token ?? token) === token,
    );
  };
  return (await budget.read(former)) ? lost("taken") : unknownLease();
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
 * Renews with the requested TTL, or else with the TTL of the grant. A renewal never shortens a grant: if
 * more of it is left than the TTL, the outcome has the remaining time as its TTL.
 * @throws LEASE_EXPIRED, LEASE_TAKEN, LEASE_REVOKED, LEASE_RELEASED, UNKNOWN_LEASE, STORE_UNAVAILABLE,
 *   OUTCOME_UNKNOWN
 */
export async function renewGrant(
  services: Services,
  context: Context<AppEnv>,
  grant: NamedGrant,
  { ttlMs: requestedMs, ttlField }: NamedTtl,
): Promise<Extract<RenewOutcome, { status: "renewed" }>> {
  if (requestedMs !== undefined) checkTtl(ttlField, requestedMs, services.ttl.leases);
  const ttlMs = requestedMs ?? (await lastGrant(services, context, grant.resource))?.ttlMs;
  if (ttlMs === undefined) throw unknownLease();
  const outcome = await services.leaseCalls(context, [grant]).renew({ ...grant, ttlMs });
  if (outcome.status === "failed") throw failed(outcome);
  if (outcome.status === "renewed") return { ...outcome, ttlMs: lastingMs(outcome) };
  const { resource, leaseId } = grant;
  const grantId = grantIdOf(leaseId);
  if (outcome.reason === "taken")
    throw await notLastGrant(services, context, resource, { grantId });
  if (outcome.reason !== "gone") throw lost(outcome.reason);
  const last = await lastGrant(services, context, resource);
  throw lost(last?.grantId === grantId && last.state === "released" ? "released" : "gone");
}

/** The TTL of a grant, or the remaining time if a renewal with a shorter TTL left more. */
export function lastingMs({
  ttlMs,
  remainingMs,
}: Pick<LeaseView, "ttlMs" | "remainingMs">): number {
  return Math.max(ttlMs, remainingMs);
}
