/** How many demands an instance admits, on a manual clock. */
import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import { Admission } from "./admission.js";

it("admits demands up to the limit, and the next one when one has ended", () => {
  const admission = new Admission(manualEnv().clock, { inFlight: 2, lateMs: null });
  const leave = admission.enter();
  expect(admission.enter()).not.toBeNull();
  expect(admission.enter()).toBeNull();
  leave?.();
  expect(admission.enter()).not.toBeNull();
  admission.close();
});

it("adapts the limit to as many demands as do not queue", async () => {
  const env = manualEnv();
  const admission = new Admission(env.clock, { inFlight: 1_000, lateMs: 250 });
  const fill = () => {
    const leaving: (() => void)[] = [];
    for (let leave = admission.enter(); leave; leave = admission.enter()) leaving.push(leave);
    return leaving;
  };
  const round = async (ms: number) => {
    const leaving = fill();
    await env.clock.advance(ms);
    for (const leave of leaving) leave();
    return leaving.length;
  };
  expect([await round(10), await round(10)]).toEqual([256, 257]);
  // Each demand waits for all others.
  const rooms = [await round(1_010), await round(360), await round(260)];
  expect(rooms).toEqual([258, 64, 46]);
  for (let rounds = 0; rounds < 20; rounds += 1) await round(1_000);
  expect(await round(1_000)).toBe(32);
  // A distant store takes long for every demand.
  for (let rounds = 0; rounds < 2_000; rounds += 1) await round(400);
  expect(await round(400)).toBeGreaterThan(500);
  admission.close();
}, 60_000);

it("raises the limit again for a store that has become slower than its fastest answer", async () => {
  const env = manualEnv();
  const admission = new Admission(env.clock, { inFlight: 64, lateMs: 250 });
  const round = async (ms: number) => {
    const leaving: (() => void)[] = [];
    for (let leave = admission.enter(); leave; leave = admission.enter()) leaving.push(leave);
    await env.clock.advance(ms);
    for (const leave of leaving) leave();
    return leaving.length;
  };
  const rooms = [await round(0), await round(400), await round(400), await round(400)];
  expect(rooms).toEqual([64, 64, 40, 32]);
  for (let rounds = 0; rounds < 400; rounds += 1) await round(400);
  expect(await round(400)).toBe(64);
  admission.close();
});

it("admits no demands while the event loop is late, and admits them again when it is on time", async () => {
  const { clock } = manualEnv();
  let lateMs = 0;
  const late = { ...clock, monotonic: () => clock.monotonic() + lateMs };
  const admission = new Admission(late, { inFlight: 1_000, lateMs: 250 });
  expect(admission.enter()).not.toBeNull();
  // Each sample is a second late.
  for (let samples = 0; samples < 10; samples += 1) {
    lateMs += 1_000;
    await clock.advance(50);
  }
  expect(admission.enter()).toBeNull();
  await clock.advance(2_000);
  expect(admission.enter()).not.toBeNull();
  admission.close();
});

it("raises the limit by one at a time for a distant store, and never above the maximum", async () => {
  const env = manualEnv();
  const admission = new Admission(env.clock, { inFlight: 258, lateMs: 250 });
  const rooms: number[] = [];
  for (let rounds = 0; rounds < 5; rounds += 1) {
    const leaving: (() => void)[] = [];
    for (let leave = admission.enter(); leave; leave = admission.enter()) leaving.push(leave);
    rooms.push(leaving.length);
    await env.clock.advance(400);
    for (const leave of leaving) leave();
  }
  // Two of its demands found the limit reached: the last one of each round.
  expect(rooms).toEqual([256, 257, 258, 258, 258]);
  admission.close();
  expect(env.clock.pendingTimers).toBe(0);
});

it("admits as many demands as the maximum says where no delay is too long", () => {
  const admission = new Admission(manualEnv().clock, { inFlight: 300, lateMs: null });
  let admitted = 0;
  while (admission.enter()) admitted += 1;
  expect(admitted).toBe(300);
  admission.close();
});

it("takes a single pause of the event loop for no overload", async () => {
  const { clock } = manualEnv();
  let lateMs = 0;
  const late = { ...clock, monotonic: () => clock.monotonic() + lateMs };
  const admission = new Admission(late, { inFlight: 1_000, lateMs: 250 });
  admission.enter();
  lateMs = 1_000;
  await clock.advance(50);
  expect(admission.isFull).toBe(false);
  admission.close();
});

it("takes an event loop that is on time for no late one", async () => {
  const env = manualEnv();
  const admission = new Admission(env.clock, { inFlight: 1_000, lateMs: 60 });
  admission.enter();
  await env.clock.advance(10_000);
  expect(admission.isFull).toBe(false);
  admission.close();
  expect(env.clock.pendingTimers).toBe(0);
  // Nothing to stop.
  new Admission(env.clock, { inFlight: 1, lateMs: null }).close();
});

it("samples a late event loop until it is on time, also with no demand in flight", async () => {
  const { clock } = manualEnv();
  let lateMs = 0;
  const late = { ...clock, monotonic: () => clock.monotonic() + lateMs };
  const admission = new Admission(late, { inFlight: 1_000, lateMs: 250 });
  const leave = admission.enter();
  for (let samples = 0; samples < 10; samples += 1) {
    lateMs += 1_000;
    await clock.advance(50);
  }
  leave?.();
  expect(admission.isFull).toBe(true);
  await clock.advance(5_000);
  expect(admission.isFull).toBe(false);
  expect(clock.pendingTimers).toBe(0);
});

it("says how much of the limit is in use, and of the time that the event loop may be late", async () => {
  const { clock } = manualEnv();
  let lateMs = 0;
  const late = { ...clock, monotonic: () => clock.monotonic() + lateMs };
  const admission = new Admission(late, { inFlight: 10, lateMs: 100 });
  expect(admission.used).toEqual({ requests: 0, eventLoop: 0 });
  const leave = admission.enter();
  lateMs = 250;
  await clock.advance(50);
  expect(admission.used).toEqual({ requests: 0.1, eventLoop: expect.closeTo(0.5) });
  expect(admission.load).toEqual({ inFlight: 1, lateMs: 50 });
  leave?.();
  await clock.advance(50);
  expect(admission.used).toEqual({ requests: 0, eventLoop: 0 });
});
