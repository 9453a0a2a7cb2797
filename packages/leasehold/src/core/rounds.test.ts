import { describe, expect, it } from "vitest";
import { grantIdOf } from "../env/index.js";
import { StoreUnavailableError } from "./errors.js";
import type { AcquireOutcome, AcquireRequest, Failed, RenewOutcome, RenewRequest } from "./port.js";
import { decideAcquire, grantText, inRounds, longest, oncePerGrant } from "./rounds.js";

const error = new StoreUnavailableError("no answer", { outcome: "unknown" });
const failed: Failed = { status: "failed", applied: "maybe", retryable: true, error };

describe("rounds", () => {
  it("send each key once at a time, in order, and answer in the order of the requests", async () => {
    const rounds: string[][] = [];
    const outcomes = await inRounds(
      ["a1", "b1", "a2", "c1", "a3", "b2"],
      (request) => request.slice(0, 1),
      async (round) => {
        rounds.push([...round]);
        return round.map((request) => ({ status: `${request} done` }));
      },
    );
    expect(rounds).toEqual([["a1", "b1", "c1"], ["a2", "b2"], ["a3"]]);
    expect(outcomes.map(({ status }) => status)).toEqual([
      "a1 done",
      "b1 done",
      "a2 done",
      "c1 done",
      "a3 done",
      "b2 done",
    ]);
  });

  it("send keys that all differ in one, and answer what the store does", async () => {
    const send = async (round: readonly string[]) =>
      round.map((request) => ({ status: `${request} done` }));
    const outcomes = await inRounds(["a", "b"], String, send);
    expect(outcomes).toEqual([{ status: "a done" }, { status: "b done" }]);
  });

  it("send nothing for an empty batch", async () => {
    expect(await inRounds([], String, () => expect.unreachable())).toEqual([]);
  });

  it("keep the order of a key behind a request that only the store can decide", async () => {
    const rounds: string[][] = [];
    await inRounds<string, { status: string }>(
      ["a1", "a2?", "a3"],
      () => "a",
      async (round) => {
        rounds.push([...round]);
        return round.map(() => ({ status: "sent" }));
      },
      (request) => (request.endsWith("?") ? null : { status: "decided" }),
    );
    expect(rounds).toEqual([["a1"], ["a2?"]]);
  });

  it("decide a request by the one before it for its key", async () => {
    const decided: unknown[] = [];
    const outcomes = await inRounds<string, { status: string }>(
      ["a1", "b1", "a2"],
      (request) => request.slice(0, 1),
      async (round) => round.map((request) => ({ status: `${request} done` })),
      (request, before) => {
        decided.push([request, before]);
        return { status: "decided" };
      },
    );
    expect(decided).toEqual([["a2", { request: "a1", outcome: { status: "a1 done" } }]]);
    expect(outcomes[2]).toEqual({ status: "decided" });
  });

  it("fail what stands behind a failed request, unsent", async () => {
    const sent: string[] = [];
    const outcomes = await inRounds<string, { status: string }>(
      ["a1", "a2", "b1"],
      (request) => request.slice(0, 1),
      async (round) => {
        sent.push(...round);
        return round.map((request) => (request === "a1" ? failed : { status: "done" }));
      },
    );
    expect(sent).toEqual(["a1", "b1"]);
    expect(outcomes[0]).toBe(failed);
    expect(outcomes[1]).toMatchObject({ status: "failed", applied: "no", retryable: true });
    expect(outcomes[1]).toMatchObject({ error: { outcome: "none", cause: error } });
  });
});

describe("acquires of one key in a batch", () => {
  const request = (leaseId: string, more: Partial<AcquireRequest> = {}): AcquireRequest => ({
    namespace: "n",
    resource: "r",
    leaseId,
    holder: `holder of ${leaseId}`,
    ttlMs: 1_000,
    ...more,
  });
  const acquired: AcquireOutcome = {
    status: "acquired",
    token: 7,
    ttlMs: 1_000,
    remainingMs: 900,
    expiresAt: null,
  };
  const heldBy = (leaseId: string): AcquireOutcome => ({
    status: "held",
    holder: "x",
    grantId: grantIdOf(leaseId),
    remainingMs: 5,
  });
  const after = (outcome: AcquireOutcome, later: AcquireRequest, first = request("first")) =>
    decideAcquire(later, { request: first, outcome });

  it("after a grant: held by it, or the same grant for the same lease id", () => {
    expect(after(acquired, request("second"))).toEqual({
      status: "held",
      holder: "holder of first",
      grantId: grantIdOf("first"),
      remainingMs: 900,
    });
    expect(after(acquired, request("first"))).toBe(acquired);
  });

  it("after a refusal: refused alike, unless the grant in the way may be its own", () => {
    const held = heldBy("other");
    expect(after(held, request("second"))).toBe(held);
    expect(after(heldBy("second"), request("second"))).toBeNull();
    expect(after({ ...held, grantId: null } as AcquireOutcome, request("second"))).toBeNull();
  });

  it("leave it to the store to note who waits", () => {
    const held = heldBy("other");
    const waits = { queueMs: 100 };
    expect(after(acquired, request("second", waits))).toBeNull();
    expect(after(held, request("second", waits))).toBeNull();
    expect(after(held, request("second", waits), request("first", waits))).toBeNull();
  });

  it("answer a copy alike, unless it waits for longer", () => {
    const reserved = { ...heldBy("other"), grantId: null } as AcquireOutcome;
    for (const outcome of [heldBy("other"), reserved, { status: "ended" } as const]) {
      expect(after(outcome, request("first"))).toBe(outcome);
      const waits = request("first", { queueMs: 100 });
      expect(after(outcome, waits, waits)).toBe(outcome);
      expect(after(outcome, waits)).toBeNull();
      expect(after(outcome, { ...waits, queueMs: 101 }, waits)).toBeNull();
    }
  });

  it("after an ended lease id: the store decides", () => {
    expect(after({ status: "ended" }, request("second"))).toBeNull();
  });
});

describe("requests of grants", () => {
  const grant = (leaseId: string, ttlMs = 10) => ({
    namespace: "n",
    resource: "r",
    leaseId,
    ttlMs,
  });

  it("are sent once per grant, all in one call, and answered in their order", async () => {
    const calls: string[][] = [];
    const outcomes = await oncePerGrant(
      [grant("a"), grant("b"), grant("a"), { ...grant("a"), resource: "s" }],
      grantText,
      async (some) => {
        calls.push(some.map(({ resource, leaseId }) => `${resource}/${leaseId}`));
        return some.map(({ resource, leaseId }) => `done ${resource}/${leaseId}`);
      },
    );
    expect(calls).toEqual([["r/a", "r/b", "s/a"]]);
    expect(outcomes).toEqual(["done r/a", "done r/b", "done r/a", "done s/a"]);
  });

  it("that all differ are answered what the store does", async () => {
    const send = async (some: readonly string[]) => some.map((request) => `done ${request}`);
    expect(await oncePerGrant(["a", "b"], String, send)).toEqual(["done a", "done b"]);
  });

  it("are sent as one, and each is answered its share", async () => {
    const outcomes = await oncePerGrant(
      ["a1", "b1", "a3", "a2", "a3"],
      (request) => request.slice(0, 1),
      async (some) => some.map((request) => `done ${request}`),
      {
        merge: (earlier, later) => (later > earlier ? later : earlier),
        share: (outcome, request, isBehind) =>
          `${request} ${isBehind ? "behind" : "before"} ${outcome}`,
      },
    );
    expect(outcomes).toEqual([
      "a1 before done a3",
      "done b1",
      "done a3",
      "a2 behind done a3",
      "a3 behind done a3",
    ]);
  });

  it("are for renewals the longest of them, and those before it are answered their own TTL", async () => {
    const renewed = (ttlMs: number, remainingMs: number): RenewOutcome => ({
      status: "renewed",
      token: 1,
      ttlMs,
      remainingMs,
      expiresAt: "2030-01-01T00:00:00.000Z",
    });
    const sent: number[] = [];
    const renew = (...ttls: number[]) =>
      oncePerGrant<RenewRequest, RenewOutcome>(
        ttls.map((ttlMs) => grant("a", ttlMs)),
        grantText,
        async (some) =>
          some.map(({ ttlMs }) => {
            sent.push(ttlMs);
            return renewed(3_000, 2_990);
          }),
        longest(1_000),
      );
    expect(await renew(1_500, 3_000, 200)).toEqual([
      renewed(2_000, 2_000),
      renewed(3_000, 2_990),
      renewed(3_000, 2_990),
    ]);
    expect(await renew(3_000, 3_000)).toEqual([renewed(3_000, 2_990), renewed(3_000, 2_990)]);
    expect(sent).toEqual([3_000, 3_000]);
  });

  it("are for renewals of one TTL answered alike, also where the grant lasts longer", async () => {
    const renewed = { status: "renewed", token: 1, ttlMs: 3_000, remainingMs: 9_000 } as const;
    const outcome: RenewOutcome = { ...renewed, expiresAt: "2030-01-01T00:00:00.000Z" };
    const outcomes = await oncePerGrant<RenewRequest, RenewOutcome>(
      [grant("a", 3_000), grant("a", 3_000)],
      grantText,
      async () => [outcome],
      longest(1),
    );
    expect(outcomes).toEqual([outcome, outcome]);
  });

  it("are lost for each of them alike", () => {
    const lost = { status: "lost", reason: "expired" } as const;
    for (const isBehind of [true, false]) {
      expect(longest(1).share?.(lost, grant("a"), isBehind)).toBe(lost);
    }
  });
});
