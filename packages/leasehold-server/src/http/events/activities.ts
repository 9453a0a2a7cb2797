/** What happens to leases and tasks, as people are told it: one shape for all, and never a lease id. */
import type { TaskEvent } from "leasehold/internal";
import type { Activity } from "leasehold/internal/wire";
import { TASK_PREFIX } from "../auth/caller.js";
import type { LeaseEvent } from "../lease-calls.js";

/** Whose a grant is, as far as this instance has seen it begin. */
export interface KnownGrant {
  readonly holder: string;
  readonly token: number;
}

type Told = Omit<Activity, "at">;

const NOTHING = {
  resource: null,
  holder: null,
  token: null,
  grantId: null,
  other: null,
  operation: null,
  reason: null,
  queue: null,
  kind: null,
  count: 1,
} as const;

/** @param known the grant that the event names */
export function activityOfLease(
  event: Exclude<LeaseEvent, { type: "renewed" }>,
  known: KnownGrant | undefined,
): Told {
  const { resource } = event;
  const grant = { resource, ...grantOf(event, known) };
  const told = (type: Activity["type"], more: Partial<Told> = {}): Told => ({
    ...NOTHING,
    topic: "lease",
    type,
    ...grant,
    ...more,
  });
  switch (event.type) {
    case "acquired":
      return told("acquired", { other: event.replaced?.holder ?? null });
    case "held":
      return told("contended", { holder: event.holder, other: event.heldBy });
    case "lost":
      return told("refused", { operation: "renew", reason: event.reason });
    case "notHeld":
      return told("refused", { operation: "release", reason: "notHeld" });
    case "released":
      return told("released");
    case "revoked":
      return told("revoked", { token: event.token, reason: event.free });
    case "failed":
      return told("failed", { operation: event.operation, reason: event.code });
  }
}

/** The grant that ran out, which nobody tells of before its place is taken. */
export function activityOfExpiry(
  resource: string,
  { holder, token, grantId }: KnownGrant & { readonly grantId: string },
  other: string,
): Told {
  const grant = { resource, holder, token, grantId };
  return { ...NOTHING, topic: "lease", type: "expired", ...grant, other };
}

/** @param event of a failure, the part of its error that is to be told */
export function activityOfTask(event: Exclude<TaskEvent, { type: "renewed" }>): Told {
  const grantee = "token" in event ? { holder: event.holder, token: event.token } : {};
  const told = (type: Activity["type"], more: Partial<Told> = {}): Told => ({
    ...NOTHING,
    topic: "task",
    type,
    resource: `${TASK_PREFIX}${event.id}`,
    ...grantee,
    kind: "kind" in event ? event.kind : null,
    ...more,
  });
  switch (event.type) {
    case "enqueued":
      return told("enqueued", { queue: event.queue, reason: event.duplicate ? "duplicate" : null });
    case "claimed":
      return told("claimed", { queue: event.queue, other: event.previousHolder });
    case "failed":
      return told("failed", { reason: event.error });
    case "refused":
      return told("refused", { operation: event.operation, reason: event.reason });
    case "expired":
      return told("expired", { reason: event.state === "dead" ? "dead" : null });
    case "completed":
      return told("completed", { reason: event.repeated ? "repeated" : null });
    case "returned":
    case "cancelled":
    case "retried":
      return told(event.type);
  }
}

/** Many renewals as one. */
export function renewals(topic: "lease" | "task", count: number): Told {
  return { ...NOTHING, topic, type: "renewed", count };
}

/** What an operator has paused, or taken back. */
export function activityOfPause(
  type: "paused" | "resumed",
  what: { readonly kind: string; readonly name: string },
  by: { readonly actor: string; readonly reason: string | null },
): Told {
  const { actor: holder, reason } = by;
  return {
    ...NOTHING,
    topic: "operator",
    type,
    holder,
    reason,
    other: `${what.kind} ${what.name}`,
  };
}

function grantOf(event: LeaseEvent, known: KnownGrant | undefined) {
  const { holder = null, token = null } = known ?? {};
  if (event.type === "acquired") {
    return { holder: event.holder, token: event.token, grantId: event.grantId };
  }
  if (event.type === "held") return { holder: null, token: null, grantId: event.grantId };
  return { holder, token, grantId: "grantId" in event ? event.grantId : null };
}
