import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { claimDigestOf } from "../env/index.js";
import type { NewTask } from "./port.js";
import { claim, enqueue, fail, refusal } from "./rules.js";

const LEASE = { claimId: "0".repeat(48), holder: "holder", queues: [], kinds: null, limit: 1 };

/** What the n-th failure of a task is answered. */
function retryInMs(
  task: Pick<NewTask, "backoffMs" | "maxBackoffMs">,
  failures: number,
  random: number,
): number | null {
  const key = { namespace: "default", id: "00000000-0000-7000-8000-000000000000" };
  const { record } = enqueue(
    null,
    null,
    {
      ...key,
      ...task,
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
  it("is between half and the whole of min(backoffMs x 2^(n-1), maxBackoffMs)", () => {
    const ms = fc.integer({ min: 0, max: 30 * 24 * 3_600_000 });
    const failures = fc.integer({ min: 1, max: 32_767 });
    const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(ms, ms, failures, random, (first, longest, n, chance) => {
        const whole = first === 0 ? 0 : Math.min(first * 2 ** (n - 1), longest);
        const waitMs = retryInMs({ backoffMs: first, maxBackoffMs: longest }, n, chance);
        expect(Number.isSafeInteger(waitMs)).toBe(true);
        expect(waitMs).toBeGreaterThanOrEqual(Math.floor(whole / 2));
        expect(waitMs).toBeLessThanOrEqual(Math.ceil(whole));
      }),
    );
  });

  it("doubles until it reaches its limit", () => {
    const task = { backoffMs: 1_000, maxBackoffMs: 5_000 };
    const longest = [1, 2, 3, 4, 5].map((n) => retryInMs(task, n, 1));
    expect(longest).toEqual([1_000, 2_000, 4_000, 5_000, 5_000]);
    expect([1, 2, 3, 4].map((n) => retryInMs(task, n, 0))).toEqual([500, 1_000, 2_000, 2_500]);
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
