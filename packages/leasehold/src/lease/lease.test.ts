/** What a held lease tells its holder and the log, and what it refuses. */
import { describe, expect, it } from "vitest";
import { faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import type { LeaseId } from "../env/index.js";
import { manualEnv } from "../testing/index.js";
import { LeaseClient } from "./client.js";
import type { GrantActions } from "./grant-actions.js";
import { HeldLease } from "./held-lease.js";
import type { AcquireOptions } from "./options.js";
import type { LeaseStore, RenewOutcome } from "./port.js";
import { RenewalScheduler } from "./renewal-scheduler.js";

const TTL_MS = 3_000;
const TRUST_MS = TTL_MS * 0.99 - 10;

async function held(options: AcquireOptions = {}, renewed?: (outcome: RenewOutcome) => object) {
  const logged: [level: string, message: string, fields: object][] = [];
  const log = (level: string) => (fields: object, message: string) =>
    void logged.push([level, message, fields]);
  const logger = { debug() {}, info() {}, warn: log("warn"), error: log("error") };
  const env = manualEnv({ logger });
  const store = faultyStore(env);
  const changed: LeaseStore = {
    ...store,
    async renew(requests) {
      const outcomes = await store.renew(requests);
      if (!renewed) return outcomes;
      return outcomes.map((outcome) => ({ ...outcome, ...renewed(outcome) }));
    },
  };
  const leases = new LeaseClient(changed, { env, holder: "me" }, { close: undefined });
  const lease = await leases.acquire("r", { ttlMs: TTL_MS, ...options });
  const reasons: string[] = [];
  lease.onLost((reason) => reasons.push(reason));
  return { clock: env.clock, store, leases, lease, reasons, logged };
}
const unavailable = expect.objectContaining({ code: "STORE_UNAVAILABLE" });

describe("a lease", () => {
  it("has one signal, and the id that others see of its grant", async () => {
    const { leases, lease, clock } = await held({ autoRenew: false });
    const { signal } = lease;
    expect(lease.signal).toBe(signal);
    expect(await leases.get("r")).toMatchObject({ grantId: lease.grantId });
    await clock.advance(TTL_MS);
    expect(signal.aborted).toBe(true);
  });

  it("ends in time though the wall clock was set back", async () => {
    const { clock, lease, reasons } = await held({ autoRenew: false });
    clock.jumpWall(-3_600_000);
    await clock.advance(TRUST_MS - 1);
    expect(lease.checkAlive()).toBe(true);
    await clock.advance(1);
    expect(lease.checkAlive()).toBe(false);
    expect(reasons).toEqual(["expired"]);
  });

  it("says whether it is held without a look at the clock", async () => {
    const { lease } = await held();
    expect(lease.isHeld).toBe(true);
    await lease.release();
    expect(lease.isHeld).toBe(false);
  });

  it("is lost once, for the first reason, and never after its release", async () => {
    const { lease, reasons } = await held();
    lease.lose("taken");
    lease.lose("gone");
    expect(lease.lostError).toMatchObject({ reason: "taken" });
    expect(reasons).toEqual(["taken"]);
    const other = await held();
    await other.lease.release();
    other.lease.lose("gone");
    expect(other.lease.lostError).toBeUndefined();
    expect(other.lease.signal.aborted).toBe(false);
  });

  it("does not abort its signal when it is released, nor later", async () => {
    const { leases, lease, clock } = await held();
    const { signal } = lease;
    await lease.release();
    await clock.advance(2 * TTL_MS);
    await leases.close();
    expect([signal.aborted, lease.signal.aborted]).toEqual([false, false]);
  });

  it("is interrupted once, and only while it is held", async () => {
    const { lease } = await held();
    lease.interrupt("first");
    lease.interrupt("second");
    expect(lease.signal.reason).toBe("first");
    const lost = await held();
    lost.lease.lose("taken");
    lost.lease.interrupt("closing");
    expect(lost.lease.signal.reason).toMatchObject({ code: "LEASE_LOST" });
    const released = await held();
    await released.lease.release();
    released.lease.interrupt("closing");
    expect(released.lease.signal.aborted).toBe(false);
  });

  it("names its loss to those who look only after it, though its client had begun to close", async () => {
    const { lease } = await held();
    lease.interrupt("closing");
    lease.lose("taken");
    expect(lease.signal.reason).toMatchObject({ code: "LEASE_LOST", reason: "taken" });
  });

  it("is renewed no more once it is left to expire, also by a renewal in flight", async () => {
    const { clock, store, lease, reasons } = await held();
    store.faults.renew = "hold";
    const renewing = lease.renew();
    await clock.settle();
    lease.letExpire();
    store.faults.renew = "ok";
    store.open();
    await renewing;
    await clock.advance(2 * TTL_MS);
    expect(store.calls.renew).toBe(1);
    expect(reasons).toEqual(["expired"]);
  });
});

describe("renew()", () => {
  it("refuses a released lease", async () => {
    const { lease, store } = await held();
    await lease.release();
    await expect(lease.renew()).rejects.toMatchObject({ code: "CLOSED" });
    expect(store.calls.renew).toBe(0);
  });

  it("refuses a lease whose trust has passed, without a call", async () => {
    const { clock, lease, store } = await held();
    clock.jumpWall(TTL_MS);
    await expect(lease.renew()).rejects.toMatchObject({ code: "LEASE_LOST", reason: "expired" });
    expect(store.calls.renew).toBe(0);
  });

  it("is shared by callers that ask for the same", async () => {
    const { lease, store } = await held();
    await Promise.all([lease.renew(), lease.renew(), lease.renew()]);
    expect(store.calls.renew).toBe(1);
  });

  it("rejects with the loss where its failure ends the lease", async () => {
    const { lease, store, reasons } = await held({ stopOnRenewError: true });
    store.faults.renew = "cut";
    await expect(lease.renew()).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect(reasons).toEqual(["expired"]);
  });

  it("is not repeated by itself with autoRenew: false", async () => {
    const { clock, lease, store } = await held({ autoRenew: false });
    store.faults.renew = "refuse";
    await expect(lease.renew()).rejects.toEqual(unavailable);
    await clock.advance(TTL_MS);
    expect(store.calls.renew).toBe(1);
  });

  it("is answered too late for a released lease: it is not lost", async () => {
    const { clock, store, lease, reasons } = await held();
    store.faults.renew = "hold";
    const renewing = lease.renew();
    await clock.settle();
    await lease.release();
    store.open();
    await renewing;
    expect(reasons).toEqual([]);
    expect(lease.lostError).toBeUndefined();
    expect(clock.pendingTimers).toBe(0);
  });

  it("is not reported as failed for a released lease", async () => {
    const error = new Error("down");
    const failed = { status: "failed", applied: "no", retryable: true, error };
    const { clock, store, lease, logged } = await held({}, () => failed);
    store.faults.renew = "hold";
    const renewing = lease.renew();
    await clock.settle();
    await lease.release();
    store.open();
    await renewing;
    expect(logged).toEqual([]);
  });
});

describe("a renewal", () => {
  it.each([
    ["another token", { token: 7 }],
    ["no time", { remainingMs: 0 }],
    ["less than no time", { remainingMs: -1 }],
    ["a time that is no number", { remainingMs: Number.NaN }],
  ])("that answers with %s ends the lease, and its grant is released", async (_, answer) => {
    const { clock, store, lease, reasons } = await held({}, () => answer);
    await expect(lease.renew()).rejects.toMatchObject({ reason: "inconsistent" });
    expect(reasons).toEqual(["inconsistent"]);
    await lease.release();
    await clock.settle();
    expect(store.calls.release).toBe(1);
  });

  it("never shortens the trust in an earlier one", async () => {
    let remainingMs = TTL_MS;
    const { lease } = await held({ autoRenew: false }, () => ({ remainingMs }));
    await lease.renew();
    expect(lease.remainingMs()).toBeCloseTo(TRUST_MS, 6);
    remainingMs = TTL_MS / 2;
    await lease.renew();
    expect(lease.remainingMs()).toBeCloseTo(TRUST_MS, 6);
  });

  it("that fails is repeated a few times, the sooner the less trust is left", async () => {
    const { clock, store, reasons } = await held();
    store.faults.renew = "refuse";
    await clock.advance(TTL_MS / 2);
    expect(store.calls.renew).toBeLessThan(6);
    await clock.advance(TRUST_MS - 200 - TTL_MS / 2);
    const before = store.calls.renew;
    expect(before).toBeLessThan(15);
    await clock.advance(200);
    expect(store.calls.renew - before).toBeGreaterThanOrEqual(4);
    expect(store.calls.renew).toBeLessThan(50);
    expect(reasons).toEqual(["expired"]);
  });

  it("is not sent when the lease is woken long before it is due", async () => {
    const { clock, store, lease } = await held({ renewIntervalMs: 100 });
    await clock.advance(60);
    lease.wake();
    await clock.settle();
    expect(store.calls.renew).toBe(0);
  });

  it("is sent a little early when the lease is woken with others", async () => {
    // Due after 900 ms at the earliest, by the jitter.
    const { clock, store, lease } = await held({ renewIntervalMs: 1_000 });
    let wokenAtMs = 0;
    for (; store.calls.renew === 0; wokenAtMs = clock.monotonic()) {
      await clock.advance(5);
      lease.wake();
      await clock.settle();
    }
    expect(wokenAtMs).toBeGreaterThanOrEqual(850);
    const alone = await held({ renewIntervalMs: 1_000 });
    while (alone.store.calls.renew === 0) await alone.clock.advance(5);
    expect(alone.clock.monotonic() - wokenAtMs).toBeGreaterThanOrEqual(40);
    expect(alone.clock.monotonic() - wokenAtMs).toBeLessThanOrEqual(60);
  });
});

describe("onLost", () => {
  it("refuses what is no function", async () => {
    const { lease } = await held();
    expect(() => lease.onLost("x" as never)).toThrow(
      expect.objectContaining({ code: "INVALID_OPTION", path: "handler" }),
    );
  });

  it("can be unsubscribed after the loss", async () => {
    const { lease } = await held();
    const unsubscribe = lease.onLost(() => {});
    lease.lose("taken");
    expect(unsubscribe).not.toThrow();
  });
});

describe("the log", () => {
  it("has a loss once, with its resource, grant, token and reason", async () => {
    const { clock, lease, logged } = await held({ autoRenew: false });
    await clock.advance(TTL_MS);
    const { grantId } = lease;
    const fields = { event: "lease_lost", resource: "r", grantId, token: 1, reason: "expired" };
    expect(logged).toEqual([["warn", "lease lost", fields]]);
  });

  it("has no expiry that was meant, but any other loss", async () => {
    const { clock, leases, lease, logged } = await held({ autoRenew: false });
    lease.isToExpire = true;
    const other = await leases.acquire("other", { autoRenew: false });
    other.isToExpire = true;
    other.lose("revoked");
    await clock.advance(TTL_MS);
    expect(lease.lostError).toMatchObject({ reason: "expired" });
    const lost = { resource: "other", reason: "revoked" };
    expect(logged).toEqual([["warn", "lease lost", expect.objectContaining(lost)]]);
  });

  it("has no loss without handlers that is more than that", async () => {
    const { leases, logged } = await held();
    const other = await leases.acquire("other");
    other.lose("taken");
    expect(logged.map(([level]) => level)).toEqual(["warn"]);
  });

  it("has what a handler threw", async () => {
    const { lease, logged } = await held();
    const err = new Error("careless");
    lease.onLost(() => {
      throw err;
    });
    lease.lose("taken");
    expect(logged[0]).toEqual(["error", "an onLost handler threw", { err, resource: "r" }]);
  });

  it("has a renewal and a release that were not confirmed", async () => {
    const { clock, store, lease, logged } = await held();
    store.faults.renew = "cut";
    store.faults.release = "cut";
    await lease.renew().catch(() => {});
    const disposing = lease[Symbol.asyncDispose]();
    await clock.advance(1_000);
    await disposing;
    const fields = { err: unavailable, resource: "r", grantId: lease.grantId };
    expect(logged).toEqual([
      ["warn", "renewal failed", fields],
      ["warn", "lease not released", fields],
    ]);
  });
});

it("needs nothing of its grant but its renewal and its release", async () => {
  const env = manualEnv();
  const renewals: (number | undefined)[] = [];
  const granted = {
    resource: "r",
    holder: "me",
    leaseId: "a".repeat(48) as LeaseId,
    token: 1,
    sent: { monotonicMs: 0, wallMs: env.clock.wall() },
    remainingMs: TTL_MS,
  };
  const options = {
    ttlMs: TTL_MS,
    renewIntervalMs: 1_000,
    autoRenew: false,
    stopOnRenewError: false,
    marginMs: 10,
    driftRatio: 0.01,
  };
  const actions: GrantActions<HeldLease> = {
    async renew(_, ttlMs) {
      renewals.push(ttlMs);
      const term = { ttlMs: 5_000, remainingMs: 5_000, expiresAt: "1970-01-01T00:00:05.000Z" };
      return { status: "renewed", token: 1, ...term };
    },
    release: async () => ({ status: "released" }),
  };
  const scheduler = new RenewalScheduler(env.clock);
  const lease = new HeldLease(granted, options, actions, scheduler, env);
  await lease.renew({ ttlMs: 5_000 });
  expect(renewals).toEqual([5_000]);
  await lease.release();
  expect(lease.checkAlive()).toBe(false);
  const lost = new HeldLease(granted, options, actions, scheduler, env);
  lost.lose("expired");
  await lost.release();
  expect(lost.lostError).toMatchObject({ reason: "expired" });
});

it("a grant that the store has ended is not released again", async () => {
  const { clock, store, leases, lease, reasons } = await held();
  await leases.revoke("r", { free: "now" });
  await lease.renew().catch(() => {});
  expect(reasons).toEqual(["revoked"]);
  await lease.release();
  await clock.settle();
  expect(store.calls.release).toBe(0);
});
