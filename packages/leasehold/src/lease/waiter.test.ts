import { describe, expect, it } from "vitest";
import { grantIdOf } from "../env/index.js";
import { manualEnv } from "../testing/index.js";
import { RESERVED_MS } from "./queue.js";
import { Waiter } from "./waiter.js";

/** Held for long by another client, with so many waiters before us. */
const held = (ahead: number) => ({ holder: "x", remainingMs: 3_600_000, ahead });

function world(ahead: number) {
  const env = manualEnv();
  const waiter = new Waiter(env, "push");
  waiter.stay(Infinity);
  let attempts = 0;
  const { signal } = new AbortController();
  void waiter.untilNextAttempt(held(ahead), 3, Infinity, signal).then(() => {
    attempts += 1;
  });
  return { clock: env.clock, waiter, attempts: () => attempts };
}

describe("a waiter", () => {
  it("attempts at once when it is notified, alone or with all others", async () => {
    for (const wakes of ["own", undefined]) {
      const { clock, waiter, attempts } = world(3);
      await clock.settle();
      waiter.notify(wakes && grantIdOf(waiter.leaseId));
      await clock.settle();
      expect(attempts()).toBe(1);
    }
  });

  it("moves up with each notification for another waiter, without an attempt", async () => {
    const { clock, waiter, attempts } = world(100);
    for (let moved = 0; moved < 100; moved += 1) {
      waiter.notify("another");
      await clock.advance(1);
    }
    expect(attempts()).toBe(0);
  });

  it("attempts when the reservations of the waiters ahead have passed", async () => {
    const { clock, waiter, attempts } = world(3);
    await clock.advance(100);
    waiter.notify("another");
    await clock.advance(3 * RESERVED_MS - 1);
    expect(attempts()).toBe(0);
    await clock.advance(2);
    expect(attempts()).toBe(1);
  });

  it("attempts the sooner, the more waiters ahead of it have been notified", async () => {
    const { clock, waiter, attempts } = world(3);
    waiter.notify("another");
    await clock.advance(100);
    waiter.notify("another");
    await clock.advance(2 * RESERVED_MS + 1);
    expect(attempts()).toBe(1);
  });

  it("leaves it to the waiters near the head to attempt if the head does not", async () => {
    const env = manualEnv();
    const waiter = new Waiter(env, "push");
    const { signal } = new AbortController();
    waiter.stay(Infinity);
    const first = waiter.untilNextAttempt(held(100), 3, Infinity, signal);
    await env.clock.advance(3_000);
    await first;
    waiter.stay(Infinity);
    let isDone = false;
    void waiter.untilNextAttempt(held(100), 4, Infinity, signal).then(() => (isDone = true));
    waiter.notify("another");
    // By then all reservations have passed.
    await env.clock.advance(12 * RESERVED_MS);
    expect(isDone).toBe(false);
  });

  it("polls less often, the more waiters are ahead of it", async () => {
    const env = manualEnv();
    const waiter = new Waiter(env, "push");
    const { signal } = new AbortController();
    waiter.stay(Infinity);
    const first = waiter.untilNextAttempt(held(20), 3, Infinity, signal);
    await env.clock.advance(3_000);
    await first;
    waiter.stay(Infinity);
    let isDone = false;
    void waiter.untilNextAttempt(held(20), 4, Infinity, signal).then(() => (isDone = true));
    // About every five seconds, with twenty ahead.
    await env.clock.advance(3_700);
    expect(isDone).toBe(false);
    await env.clock.advance(2_600);
    expect(isDone).toBe(true);
  });

  it("polls soon at first if it is the head, as it may have missed a notification", async () => {
    const { clock, attempts } = world(0);
    await clock.advance(300);
    expect(attempts()).toBe(1);
  });

  it("does not attempt for a notification that is for another waiter if none is ahead", async () => {
    const { clock, waiter, attempts } = world(0);
    waiter.notify("another");
    await clock.advance(50);
    expect(attempts()).toBe(0);
  });

  it("keeps its position in the store for longer than it waits, however far behind it turns out to be", async () => {
    for (const ahead of [0, 1, 20, 1_000]) {
      const env = manualEnv();
      const waiter = new Waiter(env, "push");
      const { signal } = new AbortController();
      for (let attempts = 0; attempts < 5; attempts += 1) {
        waiter.stay(Infinity);
        const keptMs = waiter.queueMs;
        const sinceMs = env.clock.monotonic();
        const paused = waiter.untilNextAttempt(held(ahead), attempts, Infinity, signal);
        await env.clock.advance(keptMs / 2);
        await paused;
        expect(env.clock.monotonic() - sinceMs).toBeLessThanOrEqual(keptMs / 2);
      }
    }
  });

  it("notices a notification that came during its attempt", async () => {
    const env = manualEnv();
    const waiter = new Waiter(env, "push");
    waiter.stay(Infinity);
    waiter.notify();
    const { signal } = new AbortController();
    await waiter.untilNextAttempt(held(0), 10, Infinity, signal);
    expect(env.clock.monotonic()).toBe(0);
  });
});
