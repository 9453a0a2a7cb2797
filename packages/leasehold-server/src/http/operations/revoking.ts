/** Audited revocations: each has its own audit entry. */

import type { Env } from "leasehold";
import { LeaseholdError, StoreUnavailableError } from "leasehold";
import type {
  AuditEntry,
  By,
  Control,
  Failed,
  RequestedRevocation,
  RevokeOutcome,
  RevokeRequest,
} from "leasehold/internal";
import { invariant } from "leasehold/internal";
import { ProblemError } from "../problems.js";
import type { Budget } from "../request.js";
import type { RequestOutcome, TwoPersonRevocations } from "./two-person.js";

export interface Revoked {
  readonly outcome: RevokeOutcome | RequestOutcome;
  /** Null if there is no audit, or if the outcome is unknown. */
  readonly entry: AuditEntry | null;
}

interface During {
  readonly budget: Budget;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
  /** The request that this confirms. */
  readonly confirms?: RequestedRevocation | undefined;
}

/**
 * Never rejects for a failed store or a spent budget.
 */
export async function revokeAudited(
  control: Control,
  { telemetry }: Pick<Env, "telemetry">,
  request: RevokeRequest,
  by: By,
  { budget, signal, confirms }: During,
): Promise<Revoked> {
  const { namespace, resource } = request;
  const action = { ...by, namespace, action: "lease.revoke" as const, target: resource };
  let entry: AuditEntry | null = null;
  const perform = () =>
    control.perform(
      action,
      async ({ leases }) => {
        const [value] = await leases.revoke([request]);
        invariant(value, "one outcome per request");
        return { value, details: { ...detailsOf(request, value), ...confirming(confirms) } };
      },
      (written) => {
        entry = written;
      },
    );
  const outcome = signal.aborted ? disconnected() : await budget.change(perform).catch(failureOf);
  telemetry?.count("leasehold.lease.revokes", { outcome: outcome.status });
  return { outcome, entry };
}

/**
 * Records a revocation that a second operator must confirm. Never rejects for a failed store or a spent budget; then
 * nothing was revoked, whether the request was recorded or not.
 */
export async function requestAudited(
  twoPerson: Pick<TwoPersonRevocations, "request">,
  { telemetry }: Pick<Env, "telemetry">,
  request: RevokeRequest,
  by: By,
  { budget, signal }: During,
): Promise<Revoked> {
  const record = () => twoPerson.request(request, by, budget);
  const requested = signal.aborted
    ? { outcome: disconnected(), entry: null }
    : await record().catch((error) => ({ outcome: failureOf(error), entry: null }));
  telemetry?.count("leasehold.lease.revokes", { outcome: requested.outcome.status });
  return requested;
}

function disconnected(): Failed {
  return failureOf(new ProblemError("BUDGET_SPENT", "the client disconnected before this began"));
}

function confirming(confirms: RequestedRevocation | undefined): object {
  return confirms ? { confirms: confirms.id, requestedBy: confirms.requestedBy } : {};
}

function detailsOf({ free, expectedToken }: RevokeRequest, outcome: RevokeOutcome): object {
  const asked = { free, ...(expectedToken !== undefined && { expectedToken }) };
  if (outcome.status !== "failed") return { ...asked, ...outcome };
  const { status, applied, error } = outcome;
  return { ...asked, status, applied, code: error.code };
}

function failureOf(error: unknown): Failed {
  if (error instanceof ProblemError) {
    const applied = error.code === "OUTCOME_UNKNOWN" ? "maybe" : "no";
    const outcome = applied === "no" ? "none" : "unknown";
    const cause = new StoreUnavailableError(error.message, { outcome, cause: error });
    return { status: "failed", applied, retryable: true, error: cause };
  }
  if (!(error instanceof LeaseholdError)) throw error;
  const applied = error.outcome === "none" ? "no" : "maybe";
  return { status: "failed", applied, retryable: error.retryable, error };
}
