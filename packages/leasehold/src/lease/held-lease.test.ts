import { inspect } from "node:util";
import { describe, expect, it, vi } from "vitest";
import { type Fault, faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { silentLogger } from "../env/index.js";
import { manualEnv } from "../testing/index.js";
import { LeaseClient } from "./client.js";
import { LeaseLostError } from "./errors.js";
import type { AcquireOptions } from "./options.js";

const TTL_MS = 3_000;

async function held(options: AcquireOptions = {}) {
  const env = manualEnv();
  const store = faultyStore(env);
  const leases = new LeaseClient(store, { env, holder: "me" }, { close: undefined });
  const lease = await leases.acquire("r", { ttlMs: TTL_MS, ...options });
  const reasons: string[] = [];
  lease.onLost((reason) => reasons.push(reason));
  const live = async () => (await leases.get("r"))?.state;
  return { env, clock: env.clock, store, leases, lease, reasons, live };
}

describe("renewal", () => {
  it("keeps the lease for as long as it is wanted, at a third of the ttl", async () => {
    const { clock, store, lease, live } = await held();
    await clock.advance(20 * TTL_MS);
    expect(lease.checkAlive()).toBe(true);
    expect(await live()).toBe("live");
    expect(store.calls.renew).toBeGreaterThanOrEqual(54);
    expect(store.calls.renew).toBeLessThanOrEqual(67);
    await lease.release();
    expect(clock.pendingTimers).toBe(0);
  });

  it("does not renew with autoRenew: false, and loses in time", async () => {
    const { clock, store, lease, reasons } = await held({ autoRenew: false });
    await clock.advance(TTL_MS);
    expect(store.calls.renew).toBe(0);
    expect(reasons).toEqual(["expired"]);
    expect(lease.checkAlive()).toBe(false);
  });

  it.each<Fault>(["refuse", "cut", "hang"])("survives a spell of `%s`", async (fault) => {
    const { clock, store, lease } = await held();
    store.faults.renew = fault;
    await clock.advance(TTL_MS / 2);
    store.faults.renew = "ok";
    await clock.advance(5 * TTL_MS);
    expect(lease.checkAlive()).toBe(true);
  });

  it.each<Fault>(["refuse", "hang", "hold"])(
    "ends the lease at the trusted time under `%s`, before the store's expiry",
    async (fault) => {
      const { clock, store, lease, reasons, live } = await held({ marginMs: 10, driftRatio: 0.01 });
      store.faults.renew = fault;
      let lostAtMs = Number.NaN;
      lease.onLost(() => {
        lostAtMs = clock.monotonic();
      });
      await clock.advance(TTL_MS - 1);
      expect(reasons).toEqual(["expired"]);
      expect(lostAtMs).toBeCloseTo(TTL_MS * 0.99 - 10, 6);
      expect(await live()).toBe("live");
      expect(lease.signal.aborted).toBe(true);
      expect(lease.signal.reason).toBeInstanceOf(LeaseLostError);
    },
  );

  it("is sent a third of the ttl after the last one was sent, however late that was answered", async () => {
    const { clock, store, lease } = await held();
    store.faults.renew = "hold";
    const renewing = lease.renew();
    await clock.advance(700);
    store.faults.renew = "ok";
    store.open();
    await renewing;
    expect(store.calls.renew).toBe(1);
    // The jitter is a tenth, so the next one is due 200 to 400 ms after the answer.
    await clock.advance(450);
    expect(store.calls.renew).toBe(2);
    await lease.release();
  });

  it("does not bring a lost lease back when a late answer says renewed", async () => {
    const { clock, store, lease, reasons, live } = await held();
    await clock.advance(TTL_MS / 6);
    store.faults.renew = "hold";
    const renewing = lease.renew().catch((error: unknown) => error);
    await clock.settle();
    clock.jumpWall(TTL_MS);
    expect(lease.checkAlive()).toBe(false);
    store.open();
    await clock.settle();
    expect(await renewing).toBeInstanceOf(LeaseLostError);
    expect(lease.checkAlive()).toBe(false);
    expect(reasons).toEqual(["expired"]);
    expect(await live()).toBe("live");
    // The work has stopped, so contenders need not wait for the expiry of an unused grant.
    await lease.release();
    await clock.settle();
    expect(await live()).toBe("released");
  });

  it("gives up at the first failure with stopOnRenewError", async () => {
    const { clock, store, reasons } = await held({ stopOnRenewError: true });
    store.faults.renew = "cut";
    await clock.advance(TTL_MS / 2);
    expect(reasons).toEqual(["expired"]);
  });

  it.each([true, false])(
    "names the error of the first failed renewal as the cause of an expiry (stopOnRenewError: %s)",
    async (stopOnRenewError) => {
      const { clock, store, lease } = await held({ stopOnRenewError });
      store.faults.renew = "refuse";
      const failed = await lease.renew().catch((error: unknown) => error);
      store.faults.renew = "hang";
      await clock.advance(TTL_MS);
      expect(lease.signal.reason).toMatchObject({ reason: "expired" });
      expect(lease.signal.reason.cause).toMatchObject({ code: "STORE_UNAVAILABLE" });
      if (!stopOnRenewError) expect(lease.signal.reason.cause).toBe(failed);
    },
  );

  it("names no error that a later renewal has made good, nor where the store ended it", async () => {
    const { clock, store, lease } = await held({ autoRenew: false });
    store.faults.renew = "cut";
    await expect(lease.renew()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    store.faults.renew = "ok";
    await lease.renew();
    await clock.advance(TTL_MS);
    expect(lease.signal.reason).toMatchObject({ reason: "expired" });
    expect(lease.signal.reason).not.toHaveProperty("cause");

    const other = await held({ autoRenew: false });
    other.store.faults.renew = "refuse";
    await expect(other.lease.renew()).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    other.store.faults.renew = "ok";
    await other.leases.revoke("r");
    await expect(other.lease.renew()).rejects.toMatchObject({ reason: "revoked" });
    expect(other.lease.signal.reason).not.toHaveProperty("cause");
  });

  it.each(["atExpiry", "now"] as const)("ends at once when refused (revoked %s)", async (free) => {
    const { clock, leases, lease, reasons } = await held();
    await leases.revoke("r", { free });
    await clock.advance(TTL_MS / 2);
    expect(reasons).toEqual(["revoked"]);
    expect(lease.checkAlive()).toBe(false);
  });

  it("renew() now rejects what it cannot confirm and leaves the lease standing", async () => {
    const { clock, store, lease } = await held();
    store.faults.renew = "cut";
    await expect(lease.renew()).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      outcome: "unknown",
    });
    expect(lease.checkAlive()).toBe(true);
    store.faults.renew = "ok";
    await clock.advance(100);
    await lease.renew();
    expect(lease.remainingMs()).toBeCloseTo(TTL_MS * 0.99 - 10, 6);
  });

  it("renew() shares a renewal that is under way", async () => {
    const { clock, store, lease } = await held({ autoRenew: false });
    store.faults.renew = "hold";
    const first = lease.renew();
    await clock.settle();
    const second = lease.renew();
    await clock.settle();
    store.faults.renew = "ok";
    store.open();
    await Promise.all([first, second]);
    expect(store.calls.renew).toBe(1);
  });

  it("renew({ ttlMs }) lengthens the lease from now on, and never shortens it", async () => {
    const { clock, leases, lease } = await held({ autoRenew: false });
    const leftMs = async () => (await leases.get("r"))?.remainingMs;
    await lease.renew({ ttlMs: 3 * TTL_MS });
    expect(lease.remainingMs()).toBeCloseTo(3 * TTL_MS * 0.99 - 10, 6);
    expect(await leftMs()).toBe(3 * TTL_MS);
    await clock.advance(TTL_MS);
    await lease.renew({ ttlMs: TTL_MS });
    expect(lease.checkAlive()).toBe(true);
    expect(await leftMs()).toBe(2 * TTL_MS);
    await expect(lease.renew({ ttlMs: 1 })).rejects.toMatchObject({ code: "INVALID_OPTION" });
    expect(lease.checkAlive()).toBe(true);
  });

  it("renew({ ttlMs }) with a wrong duration fails alone, not the renewals around it", async () => {
    const { lease } = await held({ autoRenew: false });
    const wrong = { code: "INVALID_OPTION" };
    const first = lease.renew();
    const refused = expect(lease.renew({ ttlMs: 1 })).rejects.toMatchObject(wrong);
    const second = lease.renew({ ttlMs: 3 * TTL_MS });
    await Promise.all([first, refused, second]);
    const joining = expect(lease.renew({ ttlMs: 1 })).rejects.toMatchObject(wrong);
    await Promise.all([joining, lease.renew()]);
  });

  it("renew({ ttlMs }) is not answered by a renewal in flight for another duration", async () => {
    const { clock, store, leases, lease } = await held({ autoRenew: false });
    store.faults.renew = "hold";
    const renewals = [lease.renew(), lease.renew({ ttlMs: 2 * TTL_MS })];
    renewals.push(lease.renew({ ttlMs: 3 * TTL_MS }));
    await clock.settle();
    store.faults.renew = "ok";
    store.open();
    await Promise.all(renewals);
    expect((await leases.get("r"))?.remainingMs).toBe(3 * TTL_MS);
    expect(store.calls.renew).toBe(3);
  });
});

describe("trust", () => {
  it("counts from before the call, whatever the answer took", async () => {
    const env = manualEnv();
    const store = faultyStore(env);
    const leases = new LeaseClient(store, { env }, { close: undefined });
    store.faults.acquire = "hold";
    const acquiring = leases.acquire("r", { ttlMs: TTL_MS });
    await env.clock.advance(1_000);
    store.open();
    const lease = await acquiring;
    // The store decided after the second; we count from before it.
    expect(lease.remainingMs()).toBeCloseTo(TTL_MS * 0.99 - 10 - 1_000, 6);
  });

  it("counts from before a renewal, too", async () => {
    const { clock, store, lease } = await held({ autoRenew: false });
    store.faults.renew = "hold";
    const renewing = lease.renew();
    await clock.advance(500);
    store.open();
    await renewing;
    expect(lease.remainingMs()).toBeCloseTo(TTL_MS * 0.99 - 10 - 500, 6);
  });

  it("ends when the wall clock runs ahead (a suspended machine), and never grows by it", async () => {
    const { clock, lease, reasons } = await held();
    clock.jumpWall(-3_600_000);
    expect(lease.remainingMs()).toBeLessThanOrEqual(TTL_MS);
    clock.jumpWall(3_600_000 + TTL_MS);
    expect(lease.checkAlive()).toBe(false);
    expect(reasons).toEqual(["expired"]);
  });

  it.each([
    ["renewing", {}],
    ["not renewing", { autoRenew: false, ttlMs: 600_000 }],
  ])("is lost within a second of waking from a suspend (%s)", async (_, options) => {
    const { clock, lease, store, reasons } = await held(options);
    store.faults.renew = "hang";
    clock.jumpWall(3_600_000);
    await clock.advance(1_000);
    expect(lease.signal.aborted).toBe(true);
    expect(reasons).toEqual(["expired"]);
  });

  it("is settled by checkAlive() before any timer has run", async () => {
    const { clock, lease, reasons } = await held();
    clock.jumpWall(TTL_MS);
    expect(lease.checkAlive()).toBe(false);
    expect(reasons).toEqual(["expired"]);
    expect(lease.signal.aborted).toBe(true);
  });
});

describe("onLost", () => {
  it("fires once, stops at no throwing handler, and heeds unsubscribe", async () => {
    const { clock, lease, reasons } = await held({ autoRenew: false });
    const seen: string[] = [];
    lease.onLost(() => {
      throw new Error("a careless handler");
    });
    lease.onLost((reason) => seen.push(reason));
    const unsubscribe = lease.onLost(() => seen.push("unsubscribed"));
    unsubscribe();
    await clock.advance(5 * TTL_MS);
    lease.checkAlive();
    expect(reasons).toEqual(["expired"]);
    expect(seen).toEqual(["expired"]);
  });

  it("tells one who asks too late", async () => {
    const { clock, lease } = await held({ autoRenew: false });
    await clock.advance(TTL_MS);
    const seen: string[] = [];
    lease.onLost((reason) => seen.push(reason));
    await clock.settle();
    expect(seen).toEqual(["expired"]);
  });

  it("calls a function once for each time that it was subscribed, and not unsubscribed", async () => {
    const { clock, lease } = await held({ autoRenew: false });
    const seen: string[] = [];
    const handler = (reason: string) => seen.push(reason);
    const leaves = [lease.onLost(handler), lease.onLost(handler), lease.onLost(handler)];
    leaves[0]?.();
    leaves[0]?.();
    await clock.advance(TTL_MS);
    expect(seen).toEqual(["expired", "expired"]);
  });

  it("does not fire for a release", async () => {
    const { clock, lease, reasons } = await held();
    await lease.release();
    await clock.advance(5 * TTL_MS);
    expect(reasons).toEqual([]);
  });
});

it("loses in full even if the logger throws", async () => {
  const env = manualEnv({
    logger: {
      ...silentLogger,
      warn: () => {
        throw new Error("the log is full");
      },
    },
  });
  const store = faultyStore(env);
  const leases = new LeaseClient(store, { env }, { close: undefined });
  const [a, b] = [await leases.acquire("a", { ttlMs: TTL_MS }), await leases.acquire("b")];
  const seen: string[] = [];
  a.onLost((reason) => seen.push(reason));
  await leases.revoke("a");
  await a.renew().catch(() => {});
  expect(seen).toEqual(["revoked"]);
  expect(a.signal.aborted).toBe(true);
  expect(b.checkAlive()).toBe(true);
});

it("does not print its secret", async () => {
  const { lease } = await held();
  const printed = JSON.stringify(lease) + inspect(lease, { depth: 9 });
  expect(printed).toContain('"token":1');
  expect(printed).not.toContain(lease.leaseId);
});

describe("release", () => {
  it("ends trust before the store is called, and is idempotent", async () => {
    const { store, clock, lease, live } = await held();
    store.faults.release = "hold";
    const releasing = lease.release();
    expect(lease.checkAlive()).toBe(false);
    expect(lease.remainingMs()).toBe(0);
    expect(lease.release()).toBe(releasing);
    await clock.settle();
    store.open();
    await releasing;
    expect(await live()).toBe("released");
    expect(store.calls.release).toBe(1);
  });

  it("repeats an unanswered release, which is harmless", async () => {
    const { store, clock, lease, live } = await held();
    store.faults.release = "cut";
    const releasing = lease.release();
    await clock.settle();
    store.faults.release = "ok";
    await clock.advance(1_000);
    await releasing;
    expect(await live()).toBe("released");
  });

  it("rejects when it stays unconfirmed; dispose only logs it", async () => {
    const { store, clock, lease } = await held();
    store.faults.release = "cut";
    const releasing = expect(lease.release()).rejects.toMatchObject({ outcome: "unknown" });
    await clock.advance(60_000);
    await releasing;
    await lease[Symbol.asyncDispose]();
  });
});

it("finishes without a call to the store: trust ends, and it is not lost", async () => {
  const { store, clock, lease, live } = await held();
  const reasons: string[] = [];
  lease.onLost((reason) => reasons.push(reason));
  const ended = vi.fn();
  lease.onEnd(ended);
  lease.finish();
  expect([lease.checkAlive(), lease.remainingMs(), ended.mock.calls.length]).toEqual([false, 0, 1]);
  lease.finish();
  await lease.release();
  await lease[Symbol.asyncDispose]();
  await clock.advance(2 * TTL_MS);
  await expect(lease.renew()).rejects.toMatchObject({ code: "CLOSED" });
  expect([store.calls.release, store.calls.renew, reasons]).toEqual([0, 0, []]);
  expect(ended).toHaveBeenCalledOnce();
  expect(await live()).not.toBe("released");
});
