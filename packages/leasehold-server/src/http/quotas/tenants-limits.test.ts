/** What of a tenant's limits is its own, and when changes are read. */
import { manualClock } from "leasehold/testing";
import { expect, it } from "vitest";
import { DEFAULT_LIMITS } from "../limits/limits.js";
import { TenantsLimits } from "./tenants-limits.js";

it("reads a tenant's limits again after five seconds, and keeps the known ones while reads fail", async () => {
  const clock = manualClock();
  let leases: number | null | Error = 7;
  const read = async () => {
    if (leases instanceof Error) throw leases;
    return { leases, tasks: null, ratePerSecond: null };
  };
  const control = { limits: { read } } as unknown as ConstructorParameters<typeof TenantsLimits>[1];
  const limits = new TenantsLimits({ ...DEFAULT_LIMITS, tasks: 5 }, control, clock);
  const own = { leases: 7, tasks: 5, ratePerSecond: 1_000 };
  expect(await limits.of("a")).toEqual(own);
  leases = 8;
  expect(await limits.of("a")).toEqual(own);
  await clock.advance(5_000);
  expect(await limits.of("a")).toEqual({ ...own, leases: 8 });
  leases = new Error("unavailable");
  await clock.advance(5_000);
  expect(await limits.of("a")).toEqual({ ...own, leases: 8 });
});

it("gives every tenant the server's limits where no store keeps others", async () => {
  const limits = new TenantsLimits({ ...DEFAULT_LIMITS, leases: 3 }, undefined, manualClock());
  expect(await limits.of("a")).toEqual({ leases: 3, tasks: null, ratePerSecond: 1_000 });
});

it("applies each of a tenant's own limits before the server's", async () => {
  const none = { leases: null, tasks: null, ratePerSecond: null };
  const kept: Readonly<Record<string, object>> = {
    a: { ...none, leases: 1 },
    b: { ...none, tasks: 2 },
    c: { ...none, ratePerSecond: 3 },
  };
  const read = async (namespace: string) => kept[namespace] ?? none;
  const control = { limits: { read } } as unknown as ConstructorParameters<typeof TenantsLimits>[1];
  const server = { leases: 70, tasks: 80, ratePerSecond: 90 };
  const limits = new TenantsLimits({ ...DEFAULT_LIMITS, ...server }, control, manualClock());
  const all = await Promise.all(["a", "b", "c", "d"].map((namespace) => limits.of(namespace)));
  expect(all).toEqual([
    { ...server, leases: 1 },
    { ...server, tasks: 2 },
    { ...server, ratePerSecond: 3 },
    server,
  ]);
});

it("does not wait long for a store that hangs, and uses its late answer", async () => {
  const clock = manualClock();
  const answers: ((leases: number) => void)[] = [];
  const read = () =>
    new Promise<object>((resolve) => {
      answers.push((leases) => resolve({ leases, tasks: null, ratePerSecond: null }));
    });
  const control = { limits: { read } } as unknown as ConstructorParameters<typeof TenantsLimits>[1];
  const limits = new TenantsLimits(DEFAULT_LIMITS, control, clock);
  const first = limits.of("a");
  answers[0]?.(7);
  expect(await first).toMatchObject({ leases: 7 });
  await clock.advance(5_000);
  const second = limits.of("a");
  await clock.advance(250);
  expect(await second).toMatchObject({ leases: 7 });
  // A second call does not wait for the same read.
  expect(await limits.of("a")).toMatchObject({ leases: 7 });
  answers[1]?.(8);
  await clock.advance(0);
  expect(await limits.of("a")).toMatchObject({ leases: 8 });
});
