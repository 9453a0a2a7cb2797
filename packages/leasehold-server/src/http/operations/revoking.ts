/** Audited revocations: each has its own audit entry. */

import type { Env } from "leasehold";
import { LeaseholdError, StoreUnavailableError } from "leasehold";
import type {
  AuditEntry,
  By,
  Control,
  Failed,
  RevokeOutcome,
  RevokeRequest,
} from "leasehold/internal";
import { invariant } from "leasehold/internal";
import { ProblemError } from "../problems.js";
import type { Budget } from "../request.js";

export interface Revoked {
  readonly outcome: RevokeOutcome;
  /** Null if there is no audit, or if the outcome is unknown. */
  readonly entry: AuditEntry | null;
}

interface During {
  readonly budget: Budget;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
}

/**
 * Never rejects for a failed store or a spent budget.
 */
export async function revokeAudited(
  control: Control,
  { telemetry }: Pick<Env, "telemetry">,
  request: RevokeRequest,
  by: By,
  { budget, signal }: During,
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
        return { value, details: detailsOf(request, value) };
      },
      (written) => {
        entry = written;
      },
    );
  const outcome = signal.aborted ? disconnected() : await budget.change(perform).catch(failureOf);
  telemetry?.count("leasehold.lease.revokes", { outcome: outcome.status });
  return { outcome, entry };
}

function disconnected(): Failed {
  return failureOf(new ProblemError("BUDGET_SPENT", "the client disconnected before this began"));
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
