/** Helpers for operator actions, which always have an audit entry. */
import type { Context } from "hono";
import { type By, type Control, inTwoSteps } from "leasehold/internal";
import { ACTOR_HEADER } from "leasehold/internal/wire";
import { ActorId } from "../../protocol/index.js";
import { callerOf } from "../auth/caller.js";
import { invalid, ProblemError } from "../problems.js";
import type { AppEnv } from "../request.js";
import type { Services } from "../services.js";

/** @throws NO_CONTROL */
export function controlOf({ control }: Pick<Services, "control">): Control {
  if (control) return control;
  throw new ProblemError(
    "NO_CONTROL",
    "keys, limits, pauses and the audit need PostgreSQL or PGlite: start the server with a --control database",
  );
}

/**
 * The caller and the reason, for the audit. Whom the caller claims to be is recorded as a claim: the actor
 * comes from the key alone.
 * @param actorId the claimed actor in the body, for a header that names none or the same
 * @throws INVALID_REQUEST for a header that is no name, or another name than the one in the body
 */
export function byCaller(
  context: Context<AppEnv>,
  reason: string | undefined,
  actorId?: string,
): By {
  const by = { actor: callerOf(context).actor, reason: reason ?? null };
  const claimedActor = claimedInHeader(context) ?? actorId;
  if (actorId !== undefined && claimedActor !== actorId) {
    const problem = `is another name than the header ${ACTOR_HEADER} has: send one of them, or the same name`;
    throw invalid([{ path: "actorId", problem }]);
  }
  return claimedActor === undefined ? by : { ...by, claimedActor };
}

function claimedInHeader(context: Context<AppEnv>): string | undefined {
  const text = context.req.header(ACTOR_HEADER);
  if (text === undefined) return undefined;
  const claimed = ActorId.safeParse(decoded(text));
  if (claimed.success) return claimed.data;
  throw invalid([{ path: ACTOR_HEADER, problem: "must be a percent-encoded name" }]);
}

/** Null for bytes that should be percent-encoded too: a header has no character set, so they have no one meaning. */
function decoded(text: string): string | null {
  if (!/^[\x20-\x7e]*$/.test(text)) return null;
  try {
    return decodeURIComponent(text);
  } catch {
    return null;
  }
}

/**
 * Collects ended grants of all tenants. It writes intent and result as two audit entries on SQL stores
 * too: it runs many statements, and one transaction would hold all their row locks until the end, so
 * that other callers could not acquire those resources.
 */
export function collectAudited(
  { control, leases }: Pick<Services, "control" | "leases">,
  olderThanMs: number,
  by: By & { readonly namespace: string },
): Promise<number> {
  if (!control) return leases.collect(olderThanMs);
  const action = { ...by, action: "lease.collect" as const, target: "" };
  return inTwoSteps(control.audit, control.actors).perform(action, async () => {
    const value = await leases.collect(olderThanMs);
    return { value, details: { olderThanMs, collected: value } };
  });
}

/**
 * Requires a reason from callers with a key.
 * @throws INVALID_REQUEST
 */
export function checkReason(
  context: Context<AppEnv>,
  path: string,
  reason: string | undefined,
): void {
  if (reason !== undefined || callerOf(context).keyId === null) return;
  throw invalid([{ path, problem: "is missing: the audit requires it" }]);
}
