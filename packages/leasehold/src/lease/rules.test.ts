import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { grantIdOf } from "../env/index.js";
import { type LeaseRecord, rules } from "./rules.js";

const KEY = { namespace: "n", resource: "r" };
const grant = (leaseId: string) => ({ ...KEY, leaseId });
const asking = (leaseId: string, ttlMs = 100) => ({ ...grant(leaseId), holder: leaseId, ttlMs });
const next = (last: number) => rules.nextToken(last, 0, 0);

/** A grant of 100 ms at time 0, by `a`. */
const live: LeaseRecord = {
  leaseId: "a",
  holder: "a",
  token: 7,
  ttlMs: 100,
  grantedAtMs: 0,
  renewedAtMs: null,
  expiresAtMs: 100,
  ended: null,
  metadata: null,
};
const released = { ...live, ended: "released" as const, expiresAtMs: 40 };
const revokedLater = { ...live, ended: "revoked" as const };
const revokedNow = { ...live, ended: "revoked" as const, expiresAtMs: 40 };

describe("nextToken", () => {
  it("lies above the last token, the floor and not below the clock", () => {
    expect(rules.nextToken(0, 0, 0)).toBe(1);
    expect(rules.nextToken(5, 9, 3)).toBe(10);
    expect(rules.nextToken(9, 5, 3)).toBe(10);
    expect(rules.nextToken(9, 5, 1_000)).toBe(1_000);
  });

  it("stops at what a number can count", () => {
    expect(() => rules.nextToken(Number.MAX_SAFE_INTEGER, 0, 0)).toThrow("safe integer");
  });
});

describe("acquire", () => {
  it.each([
    ["nothing", null, 50, 1],
    ["an expired grant", live, 100, 8],
    ["a released grant", released, 50, 8],
    ["a released grant, though the clock stepped back", released, 10, 8],
    ["a revoked grant at its expiry", revokedLater, 100, 8],
    ["a grant revoked now", revokedNow, 40, 8],
  ])("grants over %s", (_, record, nowMs, token) => {
    const decision = rules.acquire(record, { ...asking("b", 30), metadata: "m" }, nowMs, next);
    expect(decision.outcome).toEqual({ status: "acquired", token, ttlMs: 30, remainingMs: 30 });
    expect(decision.record).toEqual({
      leaseId: "b",
      holder: "b",
      token,
      ttlMs: 30,
      grantedAtMs: nowMs,
      renewedAtMs: null,
      expiresAtMs: nowMs + 30,
      ended: null,
      metadata: "m",
    });
  });

  it.each([
    ["a live grant", live],
    ["a revoked grant before its expiry", revokedLater],
  ])("is held up by %s to its last millisecond", (_, record) => {
    const { outcome, record: after } = rules.acquire(record, asking("b"), 99, next);
    expect(outcome).toEqual({
      status: "held",
      holder: "a",
      grantId: grantIdOf("a"),
      remainingMs: 1,
    });
    expect(after).toBe(record);
  });

  it("repeated answers the grant as it is", () => {
    const decision = rules.acquire(live, { ...asking("a", 900), holder: "z" }, 60, next);
    expect(decision).toEqual({
      record: live,
      outcome: { status: "acquired", token: 7, ttlMs: 100, remainingMs: 40 },
    });
  });

  it.each([
    ["expiry", live, 100],
    ["a release", released, 50],
    ["a revoke at expiry", revokedLater, 50],
    ["a revoke now", revokedNow, 50],
  ])("repeated after %s does not revive", (_, record, nowMs) => {
    const decision = rules.acquire(record, asking("a"), nowMs, next);
    expect(decision).toEqual({ record, outcome: { status: "ended" } });
  });

  it("refuses to go on with a token that does not grow", () => {
    expect(() => rules.acquire(released, asking("b"), 50, (last) => last)).toThrow("tokens");
  });
});

describe("renew", () => {
  it("extends, and never shortens", () => {
    const longer = rules.renew(live, { ...grant("a"), ttlMs: 100 }, 50);
    expect(longer.outcome).toEqual({
      status: "renewed",
      token: live.token,
      ttlMs: 100,
      remainingMs: 100,
    });
    expect(longer.record).toEqual({ ...live, renewedAtMs: 50, expiresAtMs: 150 });
    const shorter = rules.renew(live, { ...grant("a"), ttlMs: 10 }, 50);
    expect(shorter.outcome).toMatchObject({ status: "renewed", remainingMs: 50 });
    expect(shorter.record).toMatchObject({ expiresAtMs: 100 });
  });

  it.each([
    ["nothing", null, "a", 50, "gone"],
    ["another's grant", live, "b", 50, "taken"],
    ["its expired grant", live, "a", 100, "expired"],
    ["its released grant", released, "a", 30, "gone"],
    ["its revoked grant", revokedLater, "a", 50, "revoked"],
    ["its revoked grant after expiry", revokedLater, "a", 100, "revoked"],
  ])("of %s is refused", (_, record, leaseId, nowMs, reason) => {
    const decision = rules.renew(record, { ...grant(leaseId), ttlMs: 100 }, nowMs);
    expect(decision).toEqual({ record, outcome: { status: "lost", reason } });
  });
});

describe("release", () => {
  it.each([
    ["a live grant", live],
    ["a revoked grant before its expiry", revokedLater],
  ])("ends %s", (_, record) => {
    const decision = rules.release(record, grant("a"), 40);
    expect(decision.outcome).toEqual({ status: "released" });
    expect(decision.record).toEqual({ ...live, ended: "released", expiresAtMs: 40 });
  });

  it.each([
    ["repeated", released, "a", 90, "released"],
    ["of nothing", null, "a", 50, "notHeld"],
    ["of another's grant", live, "b", 50, "notHeld"],
    ["after expiry", live, "a", 100, "notHeld"],
    ["after a revoke that freed", revokedNow, "a", 40, "notHeld"],
  ])("%s changes nothing", (_, record, leaseId, nowMs, status) => {
    const decision = rules.release(record, grant(leaseId), nowMs);
    expect(decision).toEqual({ record, outcome: { status } });
  });
});

describe("revoke", () => {
  it("at expiry leaves the time, now takes it, also after the other", () => {
    const later = rules.revoke(live, { ...KEY, free: "atExpiry" }, 40);
    expect(later.outcome).toEqual({ status: "revoked", token: 7, freeInMs: 60 });
    expect(later.record).toEqual(revokedLater);
    for (const record of [live, revokedLater]) {
      const now = rules.revoke(record, { ...KEY, free: "now", expectedToken: 7 }, 40);
      expect(now.outcome).toEqual({ status: "revoked", token: 7, freeInMs: 0 });
      expect(now.record).toEqual(revokedNow);
    }
  });

  it.each([
    ["of nothing", null, 50, "notHeld"],
    ["after expiry", live, 100, "notHeld"],
    ["after a release", released, 30, "notHeld"],
    ["after a revoke that freed", revokedNow, 40, "notHeld"],
    ["with another token", live, 50, "otherToken"],
  ])("%s changes nothing", (_, record, nowMs, status) => {
    const decision = rules.revoke(record, { ...KEY, free: "now", expectedToken: 6 }, nowMs);
    expect(decision).toEqual({ record, outcome: { status } });
  });
});

/** Any sequence of requests by five grants, with time that only goes on. */
const STEP = fc.record({
  op: fc.constantFrom("acquire", "acquire", "renew", "release", "revoke", "expire"),
  lease: fc.constantFrom("a", "b", "c", "d", "e"),
  ttlMs: fc.integer({ min: 1, max: 100 }),
  free: fc.constantFrom("atExpiry" as const, "now" as const),
  passMs: fc.integer({ min: 0, max: 60 }),
});

/** What has happened to the grant on record, as an onlooker keeps it: apart from the rules. */
interface Onlooker {
  token: number;
  leaseId: string | null;
  /** The latest instant up to which any answer has promised the key to its holder. */
  promisedUntilMs: number;
  /** The grant was released, or revoked with its key freed at once. */
  freed: boolean;
  revoked: boolean;
}

it("keeps its promises over any sequence of requests", () => {
  fc.assert(
    fc.property(fc.array(STEP, { maxLength: 60 }), fc.nat(1_000), (steps, floor) => {
      const seen: Onlooker = {
        token: floor,
        leaseId: null,
        promisedUntilMs: 0,
        freed: true,
        revoked: false,
      };
      const token = (last: number) => rules.nextToken(last, floor, 0);
      let record: LeaseRecord | null = null;
      let nowMs = 0;
      for (const step of steps) {
        nowMs += step.passMs;
        const live = !seen.freed && !seen.revoked && nowMs < seen.promisedUntilMs;
        const blocked = !seen.freed && nowMs < seen.promisedUntilMs;
        const mine = seen.leaseId === step.lease;
        if (step.op === "acquire") {
          const decided = rules.acquire(record, asking(step.lease, step.ttlMs), nowMs, token);
          record = decided.record;
          if (decided.outcome.status === "held") {
            // At most one grant at a time, and never one kept from a free key.
            expect(blocked && !mine).toBe(true);
          } else if (decided.outcome.status === "ended") {
            expect(mine && !live).toBe(true);
          } else if (mine) {
            // A repeated acquire: the same token, and no later an end than was promised.
            expect(live).toBe(true);
            expect(decided.outcome.token).toBe(seen.token);
            expect(nowMs + decided.outcome.remainingMs).toBe(seen.promisedUntilMs);
          } else {
            // Also: a released record excludes no request.
            expect(blocked).toBe(false);
            expect(decided.outcome.token).toBeGreaterThan(seen.token);
            seen.leaseId = step.lease;
            seen.token = decided.outcome.token;
            seen.promisedUntilMs = nowMs + decided.outcome.remainingMs;
            seen.freed = false;
            seen.revoked = false;
          }
        } else if (step.op === "renew") {
          const request = { ...grant(step.lease), ttlMs: step.ttlMs };
          const decided = rules.renew(record, request, nowMs);
          record = decided.record;
          // No renewal after expiry, release or revoke; none refused before.
          expect(decided.outcome.status).toBe(live && mine ? "renewed" : "lost");
          if (decided.outcome.status === "renewed") {
            const untilMs = nowMs + decided.outcome.remainingMs;
            expect(untilMs).toBeGreaterThanOrEqual(seen.promisedUntilMs);
            expect(untilMs).toBeGreaterThanOrEqual(nowMs + step.ttlMs);
            seen.promisedUntilMs = untilMs;
          }
        } else if (step.op === "release") {
          const decided = rules.release(record, grant(step.lease), nowMs);
          record = decided.record;
          if (blocked && mine) {
            expect(decided.outcome.status).toBe("released");
            seen.freed = true;
          }
          if (!mine) expect(decided.outcome.status).toBe("notHeld");
        } else if (step.op === "revoke") {
          const decided = rules.revoke(record, { ...KEY, free: step.free }, nowMs);
          record = decided.record;
          expect(decided.outcome.status).toBe(blocked ? "revoked" : "notHeld");
          if (blocked) {
            seen.revoked = true;
            seen.freed = step.free === "now";
          }
        } else {
          nowMs = Math.max(nowMs, seen.promisedUntilMs);
        }
      }
    }),
    { numRuns: 500 },
  );
});
