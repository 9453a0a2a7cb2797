/** Maps events of leases and tasks to activities, which have one shape and never contain a lease id. */
import type { TaskEvent } from "leasehold/internal";
import type { Activity } from "leasehold/internal/wire";
import { TASK_PREFIX } from "../auth/caller.js";
import type { LeaseEvent } from "../lease-calls.js";

/** Holder and token of a grant that began through this instance. */
export interface KnownGrant {
  readonly holder: string;
  readonly token: number;
}

type UndatedActivity = Omit<Activity, "at">;

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

/** @param known the grant that the event names, if this instance recorded it */
export function activityOfLease(
  event: Exclude<LeaseEvent, { type: "renewed" }>,
  known: KnownGrant | undefined,
): UndatedActivity {
  const { resource } = event;
  const grant = { resource, ...grantOf(event, known) };
  const activity = (
    type: Activity["type"],
    more: Partial<UndatedActivity> = {},
  ): UndatedActivity => ({
    ...NOTHING,
    topic: "lease",
    type,
    ...grant,
    ...more,
  });
  switch (event.type) {
    case "acquired":
      return activity("acquired", { other: event.replaced?.holder ?? null });
    case "held":
      return activity("contended", { holder: event.holder, other: event.heldBy });
    case "lost":
      return activity("refused", { operation: "renew", reason: event.reason });
    case "notHeld":
      return activity("refused", { operation: "release", reason: "notHeld" });
    case "released":
      return activity("released");
    case "revoked":
      return activity("revoked", { token: event.token, reason: event.free });
    case "failed":
      return activity("failed", { operation: event.operation, reason: event.code });
  }
}

/** The expiry of a grant, which is reported only when a new grant replaces it. */
export function activityOfExpiry(
  resource: string,
  { holder, token, grantId }: KnownGrant & { readonly grantId: string },
  other: string,
): UndatedActivity {
  const grant = { resource, holder, token, grantId };
  return { ...NOTHING, topic: "lease", type: "expired", ...grant, other };
}

/** @param event for a failure, with the part of the error to publish */
export function activityOfTask(event: Exclude<TaskEvent, { type: "renewed" }>): UndatedActivity {
  const grantee = "token" in event ? { holder: event.holder, token: event.token } : {};
  const activity = (
    type: Activity["type"],
    more: Partial<UndatedActivity> = {},
  ): UndatedActivity => ({
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
      return activity("enqueued", {
        queue: event.queue,
        reason: event.duplicate ? "duplicate" : null,
      });
    case "claimed":
      return activity("claimed", { queue: event.queue, other: event.previousHolder });
    case "failed":
      return activity("failed", { reason: event.error });
    case "refused":
      return activity("refused", { operation: event.operation, reason: event.reason });
    case "expired":
      return activity("expired", { reason: event.state === "dead" ? "dead" : null });
    case "completed":
      return activity("completed", { reason: event.repeated ? "repeated" : null });
    case "late":
    case "returned":
    case "cancelled":
    case "retried":
      return activity(event.type);
  }
}

/** Many renewals as one activity. */
export function renewals(topic: "lease" | "task", count: number): UndatedActivity {
  return { ...NOTHING, topic, type: "renewed", count };
}

/** The start or the end of a pause. */
export function activityOfPause(
  type: "paused" | "resumed",
  what: { readonly kind: string; readonly name: string },
  by: { readonly actor: string; readonly reason: string | null },
): UndatedActivity {
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
