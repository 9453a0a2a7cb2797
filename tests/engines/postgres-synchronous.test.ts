/**
 * PostgreSQL with a synchronous standby: the store confirms only what the standby has, even if another
 * session cancels the wait for the standby.
 */
import { afterAll, beforeAll, expect, it } from "vitest";
import { newLeaseId, systemEnv, systemRandom } from "../../packages/leasehold/src/env/index.js";
import { openPostgres } from "../../packages/leasehold/src/stores/postgres/index.js";
import type { Stores } from "../../packages/leasehold/src/stores/source.js";
import { only } from "../../packages/leasehold/src/testing/calls.js";
import { standbyPair } from "../../verification/chaos/scenarios/postgres-pairs.js";
import { describePostgres } from "../support/engines/postgres.js";

describePostgres("a grant whose wait for the standby is cancelled", () => {
  let pair: Awaited<ReturnType<typeof standbyPair>>;
  let stores: Stores;
  beforeAll(async () => {
    pair = await standbyPair({ synchronous: true });
    stores = await openPostgres({ url: pair.url }, systemEnv);
  });
  afterAll(async () => {
    await stores?.close();
    await pair?.close();
  });

  it("is not answered, neither at once nor when it is asked for again", async () => {
    const { leases } = stores;
    const leaseId = newLeaseId(systemRandom);
    const request = { namespace: "default", resource: "r", leaseId, holder: "h", ttlMs: 60_000 };
    await pair.cut();
    const asked = leases.acquire([request], { timeoutMs: 2_000 });
    let isOpen = true;
    void asked.finally(() => {
      isOpen = false;
    });
    let cancelled = 0;
    while (isOpen) cancelled += (await pair.cancelWaits?.()) ?? 0;
    expect(cancelled).toBeGreaterThan(0);
    expect(only(await asked)).toMatchObject({ status: "failed", applied: "maybe" });
    // The primary shows it by now.
    expect(only(await leases.get([request]))).toMatchObject({ holder: "h", state: "live" });
    const again = only(await leases.acquire([request], { timeoutMs: 1_000 }));
    expect(again).toMatchObject({ status: "failed", applied: "maybe" });

    await pair.failOver();
    expect(only(await leases.get([request]))).toBeNull();
    expect(only(await leases.acquire([request]))).toMatchObject({ status: "acquired" });
    expect(only(await leases.acquire([request]))).toMatchObject({ status: "acquired" });
  });
});
