/** What each event of a lease or a task becomes. */
import type { TaskEvent } from "leasehold/internal";
import { expect, it } from "vitest";
import type { LeaseEvent } from "../lease-calls.js";
import { activityOfLease, activityOfTask } from "./activities.js";

const GRANT_ID = "0123456789abcdef";
const CAUSE = { requestId: "q", actor: "key:1", resource: "r", tookMs: 1 };
const KNOWN = { holder: "known", token: 5 };
const NOTHING = {
  resource: "r",
  holder: null,
  token: null,
  grantId: null,
  other: null,
  operation: null,
  reason: null,
  queue: null,
  kind: null,
  count: 1,
};
const OWN = { holder: "known", token: 5, grantId: GRANT_ID };
const REPLACED = {
  holder: "before",
  token: 4,
  grantId: "f".repeat(16),
  state: "released",
} as const;
const ACQUIRED = { type: "acquired", holder: "h", grantId: GRANT_ID, token: 6, ttlMs: 1 } as const;
const FAILED = { type: "failed", applied: "no", code: "STORE_UNAVAILABLE", message: "m" } as const;

type Shown = Partial<ReturnType<typeof activityOfLease>>;

it.each<[Partial<LeaseEvent>, Shown]>([
  [
    { ...ACQUIRED, replaced: null },
    { type: "acquired", holder: "h", token: 6, grantId: GRANT_ID },
  ],
  [
    { ...ACQUIRED, replaced: REPLACED },
    { type: "acquired", holder: "h", token: 6, grantId: GRANT_ID, other: "before" },
  ],
  [
    {
      type: "held",
      holder: "w",
      asked: "1".repeat(16),
      heldBy: "h",
      grantId: GRANT_ID,
      token: 6,
      queueMs: null,
      ahead: null,
    },
    { type: "contended", holder: "w", other: "h", grantId: GRANT_ID },
  ],
  [
    { type: "lost", grantId: GRANT_ID, token: null, reason: "revoked" },
    { type: "refused", ...OWN, operation: "renew", reason: "revoked" },
  ],
  [
    { type: "notHeld", grantId: GRANT_ID },
    { type: "refused", ...OWN, operation: "release", reason: "notHeld" },
  ],
  [
    { type: "released", grantId: GRANT_ID, token: null },
    { type: "released", ...OWN },
  ],
  [
    { type: "revoked", token: 9, free: "atExpiry" },
    { type: "revoked", holder: "known", token: 9, reason: "atExpiry" },
  ],
  [
    { ...FAILED, operation: "release", grantId: GRANT_ID },
    { type: "failed", ...OWN, operation: "release", reason: "STORE_UNAVAILABLE" },
  ],
])("the event %o of a lease", (event, shown) => {
  const whole = { ...CAUSE, ...event } as Parameters<typeof activityOfLease>[0];
  expect(activityOfLease(whole, KNOWN)).toEqual({ ...NOTHING, topic: "lease", ...shown });
});

const GRANTEE = { id: "t", token: 5, kind: "k", holder: "h", attempt: 1 };
const HELD = { holder: "h", token: 5, kind: "k" };

it.each<[Partial<TaskEvent>, Shown]>([
  [
    { type: "enqueued", id: "t", kind: "k", queue: "q", duplicate: false },
    { type: "enqueued", kind: "k", queue: "q" },
  ],
  [
    { type: "enqueued", id: "t", kind: "k", queue: "q", duplicate: true },
    { type: "enqueued", kind: "k", queue: "q", reason: "duplicate" },
  ],
  [
    { type: "claimed", ...GRANTEE, queue: "q", remainingMs: 1, previousHolder: "before" },
    { type: "claimed", ...HELD, queue: "q", other: "before" },
  ],
  [
    { type: "completed", ...GRANTEE, repeated: false },
    { type: "completed", ...HELD },
  ],
  [
    { type: "completed", ...GRANTEE, repeated: true },
    { type: "completed", ...HELD, reason: "repeated" },
  ],
  [
    { type: "failed", ...GRANTEE, state: "pending", retryInMs: 1, error: "e" },
    { type: "failed", ...HELD, reason: "e" },
  ],
  [
    { type: "refused", ...GRANTEE, operation: "complete", reason: "taken" },
    { type: "refused", ...HELD, operation: "complete", reason: "taken" },
  ],
  [
    { type: "expired", ...GRANTEE, state: "pending" },
    { type: "expired", ...HELD },
  ],
  [
    { type: "expired", ...GRANTEE, state: "dead" },
    { type: "expired", ...HELD, reason: "dead" },
  ],
  [
    { type: "returned", ...GRANTEE },
    { type: "returned", ...HELD },
  ],
  [{ type: "cancelled", id: "t", state: "cancelled" }, { type: "cancelled" }],
  [{ type: "retried", id: "t", state: "pending" }, { type: "retried" }],
])("the event %o of a task", (event, shown) => {
  const whole = event as Parameters<typeof activityOfTask>[0];
  const nothing = { ...NOTHING, topic: "task", resource: "task:t" };
  expect(activityOfTask(whole)).toEqual({ ...nothing, ...shown });
});
