/** A lease that a second thread renews as well: what this thread sends, believes and passes on. */
import { describe, expect, it } from "vitest";
import { LEASE_TTL_MS, leasesWorld } from "../../../../tests/support/worlds/leases-world.js";
import { LeaseClient } from "./client.js";
import type { AcquireOptions } from "./options.js";
import type { RenewalAnswer, RenewalThread } from "./thread.js";
import type { Instant } from "./trust.js";

const TRUST_MS = LEASE_TTL_MS * 0.99 - 10;

/** A thread whose renewals the test answers. */
async function held(options: AcquireOptions = {}) {
  const { env, clock, store } = leasesWorld();
  const answers: { sent: Instant; answer: RenewalAnswer }[] = [];
  const renewed: [sentMs: number, remainingMs: number][] = [];
  const thread = { isRunning: true, starts: 0, stops: 0, wake: () => {} };
  const starts: RenewalThread = {
    start(_namespace, _granted, _options, wake) {
      thread.starts += 1;
      thread.wake = wake;
      return {
        get isRunning() {
          return thread.isRunning;
        },
        read: () => answers.shift(),
        renewed: (sent, remainingMs) => void renewed.push([sent.monotonicMs, remainingMs]),
        stop: () => void (thread.stops += 1),
      };
    },
  };
  const leases = new LeaseClient(store, { env }, { close: undefined, thread: starts });
  const lease = await leases.acquire("r", { ttlMs: LEASE_TTL_MS, ...options });
  const reasons: string[] = [];
  lease.onLost((reason) => reasons.push(reason));
  const now = (): Instant => ({ monotonicMs: clock.monotonic(), wallMs: clock.wall() });
  const answer = (sent: Instant, remainingMs: number, token = 1) =>
    answers.push({ sent, answer: { status: "renewed", token, remainingMs } });
  return { clock, store, thread, answers, answer, renewed, lease, reasons, now };
}

describe("a lease that another thread renews", () => {
  it("is trusted by what the other thread was answered, from before that was sent", async () => {
    const { clock, lease, answer, now } = await held();
    await clock.advance(900);
    const sent = now();
    await clock.advance(100);
    answer(sent, LEASE_TTL_MS);
    expect(lease.remainingMs()).toBeCloseTo(TRUST_MS - 100, 6);
    // An older answer that is read later shortens nothing.
    answer({ ...sent, monotonicMs: 0, wallMs: sent.wallMs - 900 }, LEASE_TTL_MS);
    expect(lease.remainingMs()).toBeCloseTo(TRUST_MS - 100, 6);
  });

  it("outlives a blocked event loop", async () => {
    const { clock, lease, answer, now, reasons } = await held();
    clock.jumpWall(LEASE_TTL_MS - 500);
    const sent = now();
    clock.jumpWall(1_000);
    answer(sent, 3 * LEASE_TTL_MS);
    expect(lease.checkAlive()).toBe(true);
    expect(reasons).toEqual([]);
  });

  it.each([
    ["set back, then suspended", [-3_600_000, LEASE_TTL_MS]],
    ["suspended, then set back", [LEASE_TTL_MS, -3_600_000]],
    ["set forward twice", [LEASE_TTL_MS / 2, LEASE_TTL_MS / 2]],
  ])("is lost when the machine was %s after the last answer", async (_, jumps) => {
    const { clock, lease, answer, now, reasons } = await held();
    await clock.advance(900);
    answer(now(), LEASE_TTL_MS);
    expect(lease.checkAlive()).toBe(true);
    for (const ms of jumps) {
      clock.jumpWall(ms);
      lease.checkAlive();
    }
    expect(lease.checkAlive()).toBe(false);
    expect(reasons).toEqual(["expired"]);
  });

  it("is renewed here only when the other thread has not done so in time", async () => {
    const { clock, store } = await held();
    // Due by the interval and its jitter at 1,100 ms; half of the way from there to the end of trust.
    const dueAtMs = (1_100 + TRUST_MS) / 2;
    await clock.advance(dueAtMs - 1);
    expect(store.calls.renew).toBe(0);
    await clock.advance(1);
    expect(store.calls.renew).toBe(1);
  });

  it("is renewed here at the usual time when the other thread has stopped", async () => {
    const { clock, store, thread, lease } = await held();
    thread.isRunning = false;
    await lease.renew();
    await clock.advance(1_100);
    expect(store.calls.renew).toBe(2);
  });

  it("is not renewed here while the other thread renews it", async () => {
    const { clock, store, answer, now, thread, reasons } = await held();
    for (let round = 0; round < 10; round += 1) {
      await clock.advance(1_000);
      answer(now(), LEASE_TTL_MS);
      thread.wake();
    }
    expect(store.calls.renew).toBe(0);
    expect(reasons).toEqual([]);
  });

  it("is lost at once when the other thread was refused", async () => {
    const { clock, answers, now, thread, reasons } = await held();
    await clock.advance(500);
    answers.push({ sent: now(), answer: { status: "lost", reason: "revoked" } });
    thread.wake();
    expect(reasons).toEqual(["revoked"]);
    expect(thread.stops).toBe(1);
  });

  it("takes no answer after its release", async () => {
    const { answers, now, lease, reasons } = await held();
    await lease.release();
    answers.push({ sent: now(), answer: { status: "lost", reason: "gone" } });
    expect(lease.checkAlive()).toBe(false);
    expect([lease.lostError, reasons]).toEqual([undefined, []]);
  });

  it("tells the other thread of its own renewals, and of no loss", async () => {
    const { clock, store, lease, renewed } = await held();
    await clock.advance(500);
    await lease.renew();
    expect(renewed).toEqual([[500, LEASE_TTL_MS]]);
    await store.inner.revoke([{ namespace: "default", resource: "r", free: "now" }]);
    await lease.renew().catch(() => {});
    store.faults.renew = "refuse";
    expect(renewed).toHaveLength(1);
  });

  it("stops the other thread when it is left to expire", async () => {
    const { lease, thread } = await held();
    lease.letExpire();
    expect(thread.stops).toBe(1);
  });
});

it("is no matter of the other thread with autoRenew: false", async () => {
  expect((await held({ autoRenew: false })).thread.starts).toBe(0);
});
