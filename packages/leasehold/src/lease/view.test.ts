import { expect, it } from "vitest";
import type { LeaseRecord } from "./rules.js";
import { viewOf } from "./view.js";

const record: LeaseRecord = {
  leaseId: "a".repeat(48),
  holder: "h",
  token: 7,
  ttlMs: 1_000,
  grantedAtMs: 100,
  renewedAtMs: null,
  expiresAtMs: 1_100.5,
  ended: null,
  metadata: null,
};
const view = (change: Partial<LeaseRecord>, nowMs: number) =>
  viewOf({ namespace: "n", resource: "r" }, { ...record, ...change }, nowMs, (ms) => `at ${ms}`);

it("shows a live grant with its times and what is left of it, and without its secret", () => {
  const shown = view({ renewedAtMs: 200 }, 300);
  expect(shown).toStrictEqual({
    namespace: "n",
    resource: "r",
    holder: "h",
    grantId: expect.any(String),
    token: 7,
    state: "live",
    ttlMs: 1_000,
    remainingMs: 801,
    grantedAt: "at 100",
    renewedAt: "at 200",
    expiresAt: "at 1100.5",
    metadata: null,
  });
  expect(shown.grantId).not.toBe(record.leaseId);
});

it("shows nothing left of a grant that has ended, and when a revoked one frees its resource", () => {
  const expired = view({}, 2_000);
  expect(expired).toMatchObject({ state: "expired", remainingMs: 0, renewedAt: null });
  expect("freeInMs" in expired).toBe(false);
  expect(view({ ended: "released" }, 300)).toMatchObject({ state: "released", remainingMs: 0 });
  expect(view({ ended: "revoked" }, 300)).toMatchObject({ state: "revoked", freeInMs: 801 });
  for (const shown of [view({ ended: "revoked" }, 2_000), view({}, 300)]) {
    expect("freeInMs" in shown).toBe(false);
  }
});
