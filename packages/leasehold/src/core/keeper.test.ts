import { describe, expect, it } from "vitest";
import { manualClock } from "../testing/index.js";
import { Keeper, TOGETHER_MS } from "./keeper.js";

describe("Keeper", () => {
  it("wakes each at its time with one timer, and holds none when nothing is kept", async () => {
    const clock = manualClock();
    const keeper = new Keeper(clock);
    const woken: string[] = [];
    const kept = (name: string) => ({ wake: () => woken.push(`${name}@${clock.monotonic()}`) });
    const b = kept("b");
    keeper.schedule(kept("c"), 300);
    keeper.schedule(kept("a"), 100);
    keeper.schedule(b, 200);
    expect(clock.pendingTimers).toBe(1);
    await clock.advance(145);
    keeper.remove(b);
    await clock.advance(1_000);
    expect(woken).toEqual(["a@100", "c@300"]);
    expect(clock.pendingTimers).toBe(0);
  });

  it("wakes those who are due soon with those who are due now", async () => {
    const clock = manualClock();
    const keeper = new Keeper(clock);
    const woken: string[] = [];
    const at = (atMs: number) =>
      keeper.schedule({ wake: () => woken.push(`${atMs}@${clock.monotonic()}`) }, atMs);
    for (const atMs of [100, 100 + TOGETHER_MS, 101 + TOGETHER_MS]) at(atMs);
    await clock.advance(1_000);
    expect(woken).toEqual(["100@100", "150@100", "151@151"]);
  });

  it("follows the latest wish, also over many reschedulings", async () => {
    const clock = manualClock();
    const keeper = new Keeper(clock);
    let wakes = 0;
    const kept = { wake: () => void wakes++ };
    for (let round = 0; round < 10_000; round += 1) keeper.schedule(kept, 50 + (round % 7));
    await clock.advance(49);
    expect(wakes).toBe(0);
    await clock.advance(100);
    expect(wakes).toBe(1);
  });

  it("lets a woken one schedule itself anew", async () => {
    const clock = manualClock();
    const keeper = new Keeper(clock);
    const times: number[] = [];
    const kept = {
      wake() {
        times.push(clock.monotonic());
        if (times.length < 3) keeper.schedule(kept, clock.monotonic() + 10);
      },
    };
    keeper.schedule(kept, 10);
    await clock.advance(100);
    expect(times).toEqual([10, 20, 30]);
  });
});
