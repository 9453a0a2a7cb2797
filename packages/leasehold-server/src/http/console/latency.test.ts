/** Percentiles of the store's latencies. */
import type { LeaseStore } from "leasehold";
import type { TaskStore } from "leasehold/internal";
import { manualClock } from "leasehold/testing";
import { expect, test } from "vitest";
import { Latencies, timedLeases, timedTasks } from "./latency.js";

/** The value, as accurately as the classes are wide. */
const about = (ms: number) => ({ asymmetricMatch: (of: number) => of > ms / 1.2 && of < ms * 1.2 });

test("percentiles are of each operation and store alone, over the last minute", async () => {
  const clock = manualClock();
  const latencies = new Latencies(clock, 300);
  for (let n = 0; n < 97; n += 1) latencies.note("leases", "get", 10);
  for (let n = 0; n < 3; n += 1) latencies.note("leases", "get", 1_000);
  await clock.advance(50_000);
  latencies.note("tasks", "get", 90_000_000);
  latencies.note("leases", "list", 0);
  const slow = { store: "tasks", operation: "get", calls: 1 };
  const fast = { store: "leases", operation: "list", calls: 1 };
  expect(latencies.byOperation()).toEqual([
    { store: "leases", operation: "get", calls: 100, p50Ms: about(10), p99Ms: about(1_000) },
    expect.objectContaining(slow),
    expect.objectContaining(fast),
  ]);
  const [, longest, shortest] = latencies.byOperation();
  expect(longest!.p99Ms).toBeGreaterThan(50_000);
  expect(shortest!.p99Ms).toBeLessThan(0.1);
  const nulls = Array.from({ length: 49 }, () => null);
  const { p50Ms, p99Ms } = latencies.series(51);
  expect(p50Ms.slice(0, -1)).toEqual([about(10), ...nulls]);
  expect(p99Ms.slice(0, -1)).toEqual([about(1_000), ...nulls]);
  await clock.advance(10_000);
  expect(latencies.byOperation()).toMatchObject([slow, fast]);
});

test("failed calls are measured, and waits for a task in the store are not", async () => {
  const clock = manualClock();
  const latencies = new Latencies(clock, 60);
  const failing = async () => {
    await clock.advance(40);
    throw new Error("unavailable");
  };
  const leases = timedLeases({ acquire: failing } as unknown as LeaseStore, clock, latencies);
  await expect(leases.acquire([])).rejects.toThrow("unavailable");
  expect(latencies.byOperation()).toMatchObject([{ operation: "acquire", p99Ms: about(40) }]);
  await clock.advance(60_000);
  const claimOf = (remoteWait: boolean) => {
    const claim = async () => {
      await clock.advance(20);
      return { status: "claimed" as const, tasks: [] };
    };
    const store = { capabilities: { remoteWait }, claim } as unknown as TaskStore;
    return timedTasks(store, clock, latencies).claim as (request: object) => Promise<unknown>;
  };
  await claimOf(true)({ waitMs: 30_000 });
  expect(latencies.byOperation()).toEqual([]);
  await claimOf(true)({});
  await claimOf(false)({ waitMs: 30_000 });
  expect(latencies.byOperation()).toMatchObject([
    { store: "tasks", operation: "claim", calls: 2, p99Ms: about(20) },
  ]);
});
