/** Acts of a request's caller: none without its entry in the audit. */
import type { Context } from "hono";
import { type By, type Control, inTwoSteps } from "leasehold/internal";
import { callerOf } from "../auth/caller.js";
import { invalid, ProblemError } from "../problems.js";
import type { AppEnv } from "../request.js";
import type { Services } from "../services.js";

/** @throws NO_CONTROL */
export function controlOf({ control }: Pick<Services, "control">): Control {
  if (control) return control;
  throw new ProblemError(
    "NO_CONTROL",
    "keys, limits, pauses and the audit are kept in PostgreSQL or PGlite: give the server a --control database",
  );
}

/** Who asks, and why, for the audit. */
export function byCaller(context: Context<AppEnv>, reason: string | undefined): By {
  return { actor: callerOf(context).actor, reason: reason ?? null };
}

/**
 * Of all tenants. In two steps on SQL stores too: it takes many statements, and in one transaction what
 * they lock would keep others from acquiring it until the last of them is done.
 */
export function collectAudited(
  { control, leases }: Pick<Services, "control" | "leases">,
  olderThanMs: number,
  by: By & { readonly namespace: string },
): Promise<number> {
  if (!control) return leases.collect(olderThanMs);
  const action = { ...by, action: "lease.collect", target: "" };
  return inTwoSteps(control.audit, control.actors).perform(action, async () => {
    const value = await leases.collect(olderThanMs);
    return { value, details: { olderThanMs, collected: value } };
  });
}

/**
 * Whoever is known by a key says why.
 * @throws INVALID_REQUEST
 */
export function checkReason(
  context: Context<AppEnv>,
  path: string,
  reason: string | undefined,
): void {
  if (reason !== undefined || callerOf(context).keyId === null) return;
  throw invalid([{ path, problem: "is missing: the audit keeps why" }]);
}
