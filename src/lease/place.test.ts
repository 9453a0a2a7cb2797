import { describe, expect, it } from "vitest";
import { grantIdOf } from "../env/index.js";
import { manualEnv } from "../testing/index.js";
import { Place } from "./place.js";
import { RESERVED_MS } from "./queue.js";

/** Held for long by somebody, with so many before us. */
const held = (ahead: number) => ({ holder: "x", remainingMs: 3_600_000, ahead });

function world(ahead: number) {
  const env = manualEnv();
  const place = new Place(env, "push");
  place.keep();
  let asks = 0;
  const { signal } = new AbortController();
  void place.pause(held(ahead), 3, Infinity, signal).then(() => {
    asks += 1;
  });
  return { clock: env.clock, place, asks: () => asks };
}

describe("a place in line", () => {
  it("is asked for at once when its own ticket is woken, or anybody's", async () => {
    for (const wakes of ["own", undefined]) {
      const { clock, place, asks } = world(3);
      await clock.settle();
      place.hear(wakes && grantIdOf(place.ticket.leaseId));
      await clock.settle();
      expect(asks()).toBe(1);
    }
  });

  it("moves up with each hint for others, without asking", async () => {
    const { clock, place, asks } = world(100);
    for (let moved = 0; moved < 100; moved += 1) {
      place.hear("another");
      await clock.advance(1);
    }
    expect(asks()).toBe(0);
  });

  it("is asked for when those before it have let their turns pass", async () => {
    const { clock, place, asks } = world(3);
    await clock.advance(100);
    place.hear("another");
    await clock.advance(3 * RESERVED_MS - 1);
    expect(asks()).toBe(0);
    await clock.advance(2);
    expect(asks()).toBe(1);
  });

  it("is kept in the store for longer than it pauses, however far behind it turns out to be", async () => {
    for (const ahead of [0, 1, 20, 1_000]) {
      const env = manualEnv();
      const place = new Place(env, "push");
      const { signal } = new AbortController();
      for (let looks = 0; looks < 5; looks += 1) {
        const keptMs = place.keep();
        const sinceMs = env.clock.monotonic();
        const paused = place.pause(held(ahead), looks, Infinity, signal);
        await env.clock.advance(keptMs / 2);
        await paused;
        expect(env.clock.monotonic() - sinceMs).toBeLessThanOrEqual(keptMs / 2);
      }
    }
  });

  it("notices a hint that came while it was asking", async () => {
    const env = manualEnv();
    const place = new Place(env, "push");
    place.keep();
    place.hear();
    const { signal } = new AbortController();
    await place.pause(held(0), 10, Infinity, signal);
    expect(env.clock.monotonic()).toBe(0);
  });
});
