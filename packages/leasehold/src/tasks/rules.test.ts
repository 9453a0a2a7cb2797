import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { claimDigestOf } from "../env/index.js";
import type { TaskBackoff } from "./port.js";
import { claim, enqueue, fail, refusal } from "./rules.js";

const LEASE = { claimId: "0".repeat(48), holder: "holder", queues: [], kinds: null, limit: 1 };

const TWICE = { firstMs: 1_000, longestMs: 5_000, factor: 2, jitter: 0.5 };

/** What the n-th failure of a task is answered. */
function retryInMs(backoff: Partial<TaskBackoff>, failures: number, random: number): number | null {
  const key = { namespace: "default", id: "00000000-0000-7000-8000-000000000000" };
  const { record } = enqueue(
    null,
    null,
    {
      ...key,
      backoff: { ...TWICE, ...backoff },
      kind: "kind",
      queue: "queue",
      priority: 0,
      data: null,
      scheduledAt: null,
      dedupeKey: null,
      maxAttempts: failures + 1,
      crashLimit: 1,
    },
    0,
    1,
  );
  if (!record) throw new Error("it is new");
  const request = { ...key, ...LEASE, ttlMs: 1_000 };
  const before = { ...record, failures: failures - 1 };
  const claimed = claim(before, request, claimDigestOf(LEASE.claimId), 0, (last) => last + 1);
  const grant = { ...key, leaseId: claimed.outcome.leaseId, token: claimed.outcome.token };
  const failure = { ...grant, error: "", retryInMs: null };
  const { outcome } = fail(claimed.record, failure, 0, random);
  return outcome.status === "recorded" ? outcome.retryInMs : null;
}

describe("the backoff", () => {
  it("is between half and the whole of min(firstMs x 2^(n-1), longestMs)", () => {
    const ms = fc.integer({ min: 0, max: 30 * 24 * 3_600_000 });
    const failures = fc.integer({ min: 1, max: 32_767 });
    const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(ms, ms, failures, random, (first, longest, n, chance) => {
        const whole = first === 0 ? 0 : Math.min(first * 2 ** (n - 1), longest);
        const waitMs = retryInMs({ firstMs: first, longestMs: longest }, n, chance);
        expect(Number.isSafeInteger(waitMs)).toBe(true);
        expect(waitMs).toBeGreaterThanOrEqual(Math.floor(whole / 2));
        expect(waitMs).toBeLessThanOrEqual(Math.ceil(whole));
      }),
    );
  });

  it("doubles until it reaches its limit", () => {
    const longest = [1, 2, 3, 4, 5].map((n) => retryInMs(TWICE, n, 1));
    expect(longest).toEqual([1_000, 2_000, 4_000, 5_000, 5_000]);
    expect([1, 2, 3, 4].map((n) => retryInMs(TWICE, n, 0))).toEqual([500, 1_000, 2_000, 2_500]);
  });
});

describe("a backoff of another kind", () => {
  it("grows by its factor", () => {
    const waits = (factor: number) =>
      [1, 2, 3, 4].map((n) => retryInMs({ factor, longestMs: 3_000_000 }, n, 1));
    expect(waits(1)).toEqual([1_000, 1_000, 1_000, 1_000]);
    expect(waits(10)).toEqual([1_000, 10_000, 100_000, 1_000_000]);
    expect(retryInMs({ factor: 100 }, 32_767, 1)).toBe(5_000);
  });

  it("is random in the share that its jitter says", () => {
    const waits = (jitter: number) => [0, 0.5, 1].map((random) => retryInMs({ jitter }, 1, random));
    expect(waits(0)).toEqual([1_000, 1_000, 1_000]);
    expect(waits(0.1)).toEqual([900, 950, 1_000]);
    expect(waits(1)).toEqual([0, 500, 1_000]);
  });
});

describe("a refusal", () => {
  const standings = (["pending", "running", "done", "dead", "cancelled"] as const).flatMap(
    (state) => [true, false].flatMap((own) => [true, false].map((live) => ({ state, own, live }))),
  );

  it("spares the live grant of a running task alone", () => {
    expect(refusal(null)).toBe("unknown");
    for (const standing of standings) {
      const spared = standing.state === "running" && standing.own && standing.live;
      expect(refusal(standing) === null).toBe(spared);
    }
  });

  it("names what has become of the task before it names the grant", () => {
    const reasons = standings.map(({ state, own, live }) => [
      `${state}${own ? " own" : ""}${live ? " live" : ""}`,
      refusal({ state, own, live }),
    ]);
    expect(Object.fromEntries(reasons)).toEqual({
      "pending own live": "expired",
      "pending own": "expired",
      "pending live": "taken",
      pending: "taken",
      "running own live": null,
      "running own": "expired",
      "running live": "taken",
      running: "taken",
      "done own live": "finished",
      "done own": "finished",
      "done live": "finished",
      done: "finished",
      "dead own live": "finished",
      "dead own": "finished",
      "dead live": "finished",
      dead: "finished",
      "cancelled own live": "cancelled",
      "cancelled own": "cancelled",
      "cancelled live": "cancelled",
      cancelled: "cancelled",
    });
  });
});
