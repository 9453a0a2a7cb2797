import { expect, it } from "vitest";
import { LEASE_TTL_MS, leasesWorld } from "../../../../tests/support/worlds/leases-world.js";

it("a later lease of the same resource ends before the release of the first one is confirmed", async () => {
  const { a, clock, store } = leasesWorld();
  const first = await a.acquire("r");
  store.faults.release = "cut";
  const releasing = first.release();
  await clock.settle();
  store.faults.release = "ok";
  const second = await a.tryAcquire("r");
  expect(second?.token).toBe(2);
  await second?.release();
  await clock.advance(LEASE_TTL_MS);
  await releasing;
  expect(store.calls.release).toBe(3);
});
