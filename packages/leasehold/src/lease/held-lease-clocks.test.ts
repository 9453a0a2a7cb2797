/**
 * Two events of the clocks in a row: the wall clock is set, forward or back, and the machine is suspended. A suspend
 * stops the monotonic clock, so a manual clock shows it as a jump of the wall clock alone.
 */
import { describe, expect, it } from "vitest";
import { faultyStore } from "../../../../tests/support/faults/faulty-store.js";
import { manualEnv } from "../testing/index.js";
import { LeaseClient } from "./client.js";
import { instant, trustFrom, trustLeftMs } from "./trust.js";

const TTL_MS = 30_000;
const HOUR_MS = 3_600_000;
/** Between two events: the holder's clocks are compared once a second. */
const APART_MS = 1_000;
const RENEWALS = [
  ["not renewed", { autoRenew: false }],
  ["renewed until then", {}],
] as const;

async function held(options: { autoRenew?: boolean } = {}) {
  const env = manualEnv();
  const store = faultyStore(env);
  const leases = new LeaseClient(store, { env, holder: "me" }, { close: undefined });
  const lease = await leases.acquire("r", { ttlMs: TTL_MS, ...options });
  const reasons: string[] = [];
  lease.onLost((reason) => reasons.push(reason));
  return { clock: env.clock, store, lease, reasons };
}

/** What the wall clock is set by before and after a suspend of one TTL. */
const EVENTS: readonly [string, readonly number[]][] = [
  ["set back, then suspended", [-HOUR_MS, TTL_MS]],
  ["set back twice, then suspended", [-HOUR_MS, -HOUR_MS, TTL_MS]],
  ["set back by less than a ttl, then suspended", [-TTL_MS / 2, TTL_MS]],
  ["set forward and back again, then suspended", [TTL_MS / 2, -TTL_MS / 2, TTL_MS]],
  ["set back, then suspended twice", [-HOUR_MS, TTL_MS / 2, TTL_MS / 2]],
  ["set back between two suspends", [TTL_MS / 2, -HOUR_MS, TTL_MS / 2]],
  ["suspended, then set back", [TTL_MS, -HOUR_MS]],
  ["suspended, then set forward", [TTL_MS, HOUR_MS]],
  ["set forward, then suspended", [TTL_MS / 2, TTL_MS]],
  ["set forward twice", [TTL_MS / 2, TTL_MS / 2]],
];

describe.each(RENEWALS)("a lease, %s", (_, options) => {
  it.each(EVENTS)("is lost within a second after its machine was %s", async (_, jumps) => {
    const { clock, store, lease, reasons } = await held(options);
    await clock.advance(TTL_MS / 2);
    // A renewal would be refused, if it were answered.
    store.faults.renew = "hang";
    for (const ms of jumps) {
      clock.jumpWall(ms);
      await clock.advance(APART_MS);
    }
    expect(reasons).toEqual(["expired"]);
    expect(lease.signal.aborted).toBe(true);
    expect(lease.remainingMs()).toBe(0);
  });

  it("is settled by checkAlive() before any timer has run", async () => {
    const { clock, lease, reasons } = await held(options);
    clock.jumpWall(-HOUR_MS);
    expect(lease.checkAlive()).toBe(true);
    clock.jumpWall(TTL_MS);
    expect(lease.checkAlive()).toBe(false);
    expect(reasons).toEqual(["expired"]);
  });

  it("is trusted as before when the wall clock alone was set back", async () => {
    const { clock, store, lease } = await held(options);
    store.faults.renew = "hang";
    clock.jumpWall(-HOUR_MS);
    await clock.advance(APART_MS);
    expect(lease.remainingMs()).toBeCloseTo(TTL_MS * 0.99 - 10 - APART_MS, 3);
  });
});

it("counts a renewal by the clock that was set back, and notices the suspend that follows", async () => {
  const { clock, store, lease } = await held();
  clock.jumpWall(-HOUR_MS);
  await lease.renew();
  store.faults.renew = "hang";
  expect(lease.remainingMs()).toBeCloseTo(TTL_MS * 0.99 - 10, 3);
  clock.jumpWall(TTL_MS);
  expect(lease.checkAlive()).toBe(false);
});

it("counts a renewal whose answer comes after the clock was set back, and notices the suspend", async () => {
  const { clock, store, lease, reasons } = await held();
  store.faults.renew = "hold";
  const renewing = lease.renew();
  await clock.settle();
  clock.jumpWall(-HOUR_MS);
  store.open();
  await renewing;
  store.faults.renew = "hang";
  await clock.advance(APART_MS);
  clock.jumpWall(TTL_MS);
  await clock.advance(APART_MS);
  expect(reasons).toEqual(["expired"]);
});

it("is not revived by a clock that is set back after a suspend", async () => {
  const { clock, lease, reasons } = await held();
  clock.jumpWall(TTL_MS);
  expect(lease.checkAlive()).toBe(false);
  clock.jumpWall(-HOUR_MS);
  expect(lease.checkAlive()).toBe(false);
  await clock.advance(APART_MS);
  expect(reasons).toEqual(["expired"]);
});

it("never trusts a grant for longer than its time, whichever way the clocks go", () => {
  const { clock, random } = manualEnv({ seed: 18 });
  for (let round = 0; round < 300; round += 1) {
    const trust = trustFrom(instant(clock), TTL_MS, { driftRatio: 0, marginMs: 0 });
    let trueLeftMs = TTL_MS;
    for (let event = 0; event < 6; event += 1) {
      // Set back or forward, or suspended; trust is read after each event.
      const ms = Math.round(random.float() * TTL_MS);
      const kind = Math.floor(random.float() * 3);
      clock.jumpWall(kind === 0 ? -100 * ms : ms);
      if (kind === 2) trueLeftMs -= ms;
      expect(trustLeftMs(trust, clock)).toBeLessThanOrEqual(trueLeftMs + 0.01);
    }
  }
});
