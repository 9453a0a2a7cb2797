import { nextTurn } from "leasehold/internal";
import { describe, expect, it } from "vitest";
import { settledByTicks, settledByTurns } from "./settled.js";
import { World } from "./world.js";

describe.each([
  ["by turns", settledByTurns],
  ["by ticks", settledByTicks],
] as const)("settled %s", (_, settled) => {
  it("lets code that waits for turns of the event loop go on within the event", async () => {
    const world = new World(1, { settled });
    const happened: string[] = [];
    const wait = async () => {
      for (let turn = 0; turn < 3; turn++) {
        await Promise.resolve();
        await nextTurn();
      }
      happened.push(`turns passed at ${world.nowMs} ms`);
    };
    world.after(1, () => void wait());
    world.after(5, () => happened.push("the next event"));
    await world.runUntil(10);
    expect(happened).toEqual(["turns passed at 1 ms", "the next event"]);
  });

  it("waits for every promise reaction, wherever it is called", async () => {
    let reactions = 0;
    const react = async () => {
      for (let i = 0; i < 20; i++) await Promise.resolve();
      reactions += 1;
    };
    // Not in a promise reaction: there, ticks would come after all of them.
    const seen = new Promise<number>((resolve) => {
      setImmediate(() => {
        void react();
        void settled().then(() => resolve(reactions));
      });
    });
    expect(await seen).toBe(1);
  });
});
