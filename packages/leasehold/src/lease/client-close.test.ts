import { describe, expect, it } from "vitest";
import { LEASE_TTL_MS, leasesWorld } from "../../../../tests/support/worlds/leases-world.js";
import type { ManualClock } from "../testing/index.js";
import { LeaseClient } from "./client.js";
import { ClosedError } from "./errors.js";

async function closeAt(leases: LeaseClient, clock: ManualClock) {
  const closing = leases.close();
  await clock.advance(5_000);
  await closing;
}

describe("close", () => {
  it("stops waiters, signals the work, waits for it, then releases", async () => {
    const { a, b, clock } = leasesWorld();
    await a.acquire("other");
    const waiter = b.acquire("other").catch((error: unknown) => error);
    const steps: string[] = [];
    const running = b.run("r", async (lease) => {
      await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
      expect(lease.signal.reason).toBeInstanceOf(ClosedError);
      // The lease still stands while the work drains.
      expect(lease.checkAlive()).toBe(true);
      steps.push("drained");
    });
    await clock.settle();
    const closing = b.close().then(() => steps.push("closed"));
    await clock.advance(100);
    await Promise.all([running, closing]);
    expect(steps).toEqual(["drained", "closed"]);
    expect(await waiter).toBeInstanceOf(ClosedError);
    expect(await a.get("r")).toMatchObject({ state: "released" });
    await expect(b.acquire("r")).rejects.toBeInstanceOf(ClosedError);
    await closeAt(a, clock);
    expect(clock.pendingTimers).toBe(0);
  });

  it("does not release under work that does not stop: the lease expires by itself", async () => {
    const { a, b, clock } = leasesWorld();
    let end = () => {};
    const running = a.run("r", () => new Promise<void>((resolve) => void (end = resolve)));
    const outcome = expect(running).rejects.toMatchObject({
      code: "LEASE_LOST",
      reason: "expired",
    });
    await clock.settle();
    await closeAt(a, clock);
    expect(await b.tryAcquire("r")).toBeNull();
    await clock.advance(30_000);
    expect(await b.tryAcquire("r")).not.toBeNull();
    end();
    await outcome;
    expect(clock.pendingTimers).toBe(1);
  });

  it("calls no closed store for work that ends after it, while its lease still lasts", async () => {
    const { a, b, clock, store } = leasesWorld();
    let end = () => {};
    const running = a.run("r", () => new Promise<string>((resolve) => (end = () => resolve("v"))));
    await clock.settle();
    await closeAt(a, clock);
    store.faults.release = "hang";
    end();
    expect(await running).toBe("v");
    expect(clock.pendingTimers).toBe(0);
    expect(await b.get("r")).toMatchObject({ state: "live" });
  });

  it("closes the store only when given-up grants have been released", async () => {
    const { env, clock, store, b } = leasesWorld();
    const leases = new LeaseClient(
      store,
      { env },
      { close: async () => void (store.faults.release = "hang") },
    );
    store.faults.acquire = "hold";
    const acquiring = leases.acquire("r").catch((error: unknown) => error);
    await clock.settle();
    const closing = leases.close();
    await clock.settle();
    store.faults.acquire = "ok";
    store.open();
    await closing;
    expect(await acquiring).toBeInstanceOf(ClosedError);
    expect(await b.tryAcquire("r")).not.toBeNull();
  });

  it.each<[string, (leases: LeaseClient, clock: ManualClock) => unknown]>([
    [
      "a waiter's position in the queue",
      (leases) => leases.acquire("held").catch((error: unknown) => error),
    ],
    [
      "a lost lease",
      async (leases, clock) => {
        const lease = await leases.acquire("lost", { autoRenew: false });
        clock.jumpWall(LEASE_TTL_MS);
        return lease.checkAlive() ? expect.fail("not lost") : lease.release();
      },
    ],
  ])("closes the store only when %s has been released", async (_, begin) => {
    const { env, clock, store, b } = leasesWorld();
    await b.acquire("held");
    let isClosed = false;
    const options = { env, defaults: { ttlMs: LEASE_TTL_MS } };
    const close = async () => void (isClosed = true);
    const leases = new LeaseClient(store, options, { close });
    store.faults.release = "hold";
    const begun = begin(leases, clock);
    await clock.advance(100);
    const closing = leases.close();
    await clock.advance(100);
    expect([isClosed, store.calls.release]).toEqual([false, 1]);
    store.open();
    await closing;
    await begun;
    expect(isClosed).toBe(true);
  });

  it("releases after graceMs what its caller has acquired and not released", async () => {
    const { a, b, clock } = leasesWorld();
    const lease = await a.acquire("r");
    const closing = a.close();
    await clock.advance(4_999);
    expect(lease.checkAlive()).toBe(true);
    await clock.advance(1);
    await closing;
    expect(lease.checkAlive()).toBe(false);
    expect(await b.get("r")).toMatchObject({ state: "released" });
  });
});
