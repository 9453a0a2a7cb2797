import { describe, expect, it } from "vitest";
import { faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { ClosedError, LeaseClient } from "../lease/index.js";
import { manualEnv } from "../testing/index.js";
import { type SingletonWork, singletonOver } from "./singleton.js";

const TTL_MS = 3_000;

function world() {
  const env = manualEnv();
  const store = faultyStore(env);
  const node = (holder: string, work: SingletonWork) => {
    const leases = new LeaseClient(store, { env, holder }, { close: undefined });
    return { leases, singleton: singletonOver(leases, "job", work, { ttlMs: TTL_MS }).start() };
  };
  return { clock: env.clock, store, node };
}

const untilAborted: SingletonWork = (lease) =>
  new Promise((resolve) => lease.signal.addEventListener("abort", () => resolve()));

describe("Singleton", () => {
  it("works on one node, and on another when the first is closed", async () => {
    const { clock, node } = world();
    const working = new Set<string>();
    let overlaps = 0;
    const work =
      (name: string): SingletonWork =>
      async (lease) => {
        working.add(name);
        if (working.size > 1) overlaps += 1;
        await untilAborted(lease);
        working.delete(name);
      };
    const a = node("a", work("a"));
    const b = node("b", work("b"));
    await clock.advance(100);
    expect([...working]).toEqual(["a"]);
    await a.singleton.close();
    await clock.advance(100);
    expect([...working]).toEqual(["b"]);
    expect(b.singleton.lease?.token).toBe(2);
    await b.singleton.close();
    expect(overlaps).toBe(0);
    expect(clock.pendingTimers).toBe(0);
  });

  it("stops the work when the lease is lost, and contends again only when it has ended", async () => {
    const { clock, node, store } = world();
    let running = 0;
    let terms = 0;
    let drain = () => {};
    const { singleton } = node("a", async (lease) => {
      expect(running).toBe(0);
      running += 1;
      terms += 1;
      await untilAborted(lease);
      await new Promise<void>((resolve) => {
        drain = resolve;
      });
      running -= 1;
    });
    await clock.advance(100);
    store.faults.renew = "refuse";
    await clock.advance(2 * TTL_MS);
    store.faults.renew = "ok";
    expect([running, terms]).toEqual([1, 1]);
    drain();
    await clock.advance(TTL_MS);
    expect([running, terms]).toEqual([1, 2]);
    const closing = singleton.close();
    await clock.settle();
    drain();
    await closing;
  });

  it("does not release under work that does not stop: the lease expires, and others start then", async () => {
    const { clock, node } = world();
    let finish = () => {};
    const stubborn: SingletonWork = () =>
      new Promise((resolve) => {
        finish = resolve;
      });
    const a = node("a", stubborn);
    await clock.advance(100);
    let started = false;
    const b = node("b", async (lease) => {
      started = true;
      await untilAborted(lease);
    });
    const refused = expect(a.singleton.close()).rejects.toMatchObject({
      code: "STILL_RUNNING",
      retryable: true,
      resource: "job",
      graceMs: 5_000,
      message: expect.stringContaining("but expires"),
    });
    // In its grace it is renewed; then no more.
    await clock.advance(4_999);
    expect(a.singleton.lease?.checkAlive()).toBe(true);
    await clock.advance(1);
    await refused;
    expect(a.singleton.lease?.checkAlive()).toBe(true);
    expect(await b.leases.get("job")).toMatchObject({ state: "live", holder: "a" });
    expect(started).toBe(false);
    await clock.advance(TTL_MS + 100);
    expect(started).toBe(true);
    const disposed = a.singleton[Symbol.asyncDispose]();
    await clock.advance(5_000);
    await disposed;
    const closing = a.singleton.close();
    finish();
    await closing;
    expect(await b.leases.get("job")).toMatchObject({ state: "live", holder: "b" });
    await b.singleton.close();
    expect(clock.pendingTimers).toBe(0);
  });

  it("releases if the work ends late, but before its lease does", async () => {
    const { clock, node } = world();
    let finish = () => {};
    const { leases, singleton } = node("a", () => new Promise((resolve) => (finish = resolve)));
    await clock.advance(100);
    const refused = expect(singleton.close()).rejects.toMatchObject({ code: "STILL_RUNNING" });
    await clock.advance(5_100);
    await refused;
    finish();
    await singleton.close();
    expect(await leases.get("job")).toMatchObject({ state: "released" });
    expect(clock.pendingTimers).toBe(0);
  });

  it("keeps the lease from a client that closes before the work has stopped", async () => {
    const { clock, node, store } = world();
    let finish = () => {};
    const { leases, singleton } = node("a", () => new Promise((resolve) => (finish = resolve)));
    await clock.advance(100);
    const closing = leases.close();
    await clock.advance(5_000);
    await closing;
    const stateOf = async () => (await store.get([{ namespace: "default", resource: "job" }]))[0];
    expect(await stateOf()).toMatchObject({ state: "live" });
    await clock.advance(TTL_MS);
    expect(await stateOf()).toMatchObject({ state: "expired" });
    finish();
    await singleton.close();
    expect(clock.pendingTimers).toBe(0);
  });

  it("waits for work that was lost and does not stop, with nothing new beside it", async () => {
    const { clock, node, store } = world();
    let [running, terms] = [0, 0];
    let finish = () => {};
    const { singleton } = node("a", async () => {
      expect((running += 1)).toBe(1);
      terms += 1;
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      running -= 1;
    });
    await clock.advance(100);
    store.faults.renew = "refuse";
    await clock.advance(TTL_MS);
    store.faults.renew = "ok";
    await clock.advance(60_000);
    expect([running, terms]).toEqual([1, 1]);
    finish();
    await clock.advance(1_000);
    expect([running, terms]).toEqual([1, 2]);
    const closing = singleton.close();
    await clock.settle();
    finish();
    await closing;
    expect(clock.pendingTimers).toBe(0);
  });

  it("starts work that throws again, with growing pauses, and lets others try meanwhile", async () => {
    const { clock, node } = world();
    const starts: number[] = [];
    const { leases, singleton } = node("a", async () => {
      starts.push(clock.monotonic());
      throw new Error("broken");
    });
    await clock.advance(500);
    expect((await leases.get("job"))?.state).toBe("released");
    await clock.advance(60_000);
    const pauses = starts.slice(1).map((at, index) => at - (starts[index] ?? 0));
    expect(pauses.length).toBeGreaterThan(3);
    for (const [index, pause] of pauses.entries()) {
      expect(pause).toBeGreaterThan(0.85 * 1_000 * 2 ** index);
      expect(pause).toBeLessThan(1.15 * 1_000 * 2 ** index);
    }
    await singleton.close();
  });

  it("starts work again that fails on something closed of its own, and ends with its client", async () => {
    const { clock, node } = world();
    let starts = 0;
    const { leases } = node("a", async () => {
      starts += 1;
      throw new ClosedError("the work's own store");
    });
    await clock.advance(5_000);
    expect(starts).toBeGreaterThan(1);
    await leases.close();
    const before = starts;
    await clock.advance(120_000);
    expect(starts).toBe(before);
    expect(clock.pendingTimers).toBe(0);
  });

  it("says at once what is wrong with its resource and options", () => {
    const { node } = world();
    const { leases } = node("a", untilAborted);
    for (const [resource, options, path] of [
      ["", {}, "resource"],
      ["x", { ttlMs: -1 }, "ttlMs"],
      ["x", { ttlMs: 1_000, renewIntervalMs: 2_000 }, "renewIntervalMs"],
      ["x", { restartDelayMs: -1 }, "restartDelayMs"],
      ["x", { graceMs: -1 }, "graceMs"],
    ] as const) {
      expect(() => singletonOver(leases, resource, untilAborted, options)).toThrow(
        expect.objectContaining({ code: "INVALID_OPTION", path }),
      );
    }
  });
});
