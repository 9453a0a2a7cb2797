import { describe, expect, it } from "vitest";
import type { RenewOutcome, RenewRequest } from "../lease/port.js";
import { grantText, longest, oncePerGrant } from "./rounds.js";

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
