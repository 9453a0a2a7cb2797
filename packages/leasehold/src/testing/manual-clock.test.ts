import { describe, expect, it } from "vitest";
import { sleep } from "../env/index.js";
import { manualClock, manualEnv, seededRandom } from "./manual-clock.js";

describe("the manual clock", () => {
  it("runs due timers by time, then creation, with promises settled in between", async () => {
    const clock = manualClock();
    const seen: string[] = [];
    const note = (what: string) => async () => {
      seen.push(`${what}@${clock.monotonic()}`);
      for (let depth = 0; depth < 50; depth++) await Promise.resolve();
      seen.push(`${what} settled`);
    };
    clock.timer(20, note("b"));
    clock.timer(10, note("a"));
    clock.timer(20, note("c"));
    clock.timer(31, note("late"));
    await clock.advance(30);
    expect(seen).toEqual(["a@10", "a settled", "b@20", "b settled", "c@20", "c settled"]);
    expect(clock.monotonic()).toBe(30);
    expect(clock.pendingTimers).toBe(1);
  });

  it("runs timers created on the way, and none that was cancelled", async () => {
    const clock = manualClock();
    let turns = 0;
    const loop = async () => {
      for (;;) {
        await sleep(clock, 10);
        turns += 1;
      }
    };
    void loop();
    clock.timer(5, () => cancelled.cancel());
    const cancelled = clock.timer(6, () => expect.unreachable());
    await clock.advance(100);
    expect(turns).toBe(10);
    cancelled.cancel();
    expect(clock.pendingTimers).toBe(1);
  });

  it("moves the wall clock with time and by jumps, which timers do not notice", async () => {
    const clock = manualClock({ wallMs: 1_000 });
    let fired = false;
    clock.timer(50, () => {
      fired = true;
    });
    clock.jumpWall(-400);
    await clock.advance(49);
    expect([clock.wall(), clock.monotonic(), fired]).toEqual([649, 49, false]);
    await clock.advance(1);
    expect(fired).toBe(true);
  });

  it("refuses to be advanced twice at once, or backwards", async () => {
    const clock = manualClock();
    const first = clock.advance(10);
    await expect(clock.advance(10)).rejects.toThrow("one advance() ends");
    await first;
    await expect(clock.advance(-1)).rejects.toThrow("zero or more");
  });
});

describe("seeded randomness", () => {
  it("repeats itself for a seed and differs between close seeds", () => {
    const draw = (seed: number) => Buffer.from(seededRandom(seed).bytes(16)).toString("hex");
    expect(draw(7)).toBe(draw(7));
    expect(new Set(Array.from({ length: 1_000 }, (_, seed) => draw(seed))).size).toBe(1_000);
  });

  it("is spread over [0, 1)", () => {
    const { random } = manualEnv({ seed: 3 });
    const buckets = new Array<number>(10).fill(0);
    for (let draw = 0; draw < 10_000; draw++) {
      const bucket = Math.floor(random.float() * 10);
      buckets[bucket] = (buckets[bucket] ?? 0) + 1;
    }
    for (const count of buckets) expect(count).toBeGreaterThan(800);
    expect(buckets.reduce((sum, count) => sum + count)).toBe(10_000);
  });
});
