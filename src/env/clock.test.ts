import { expect, it } from "vitest";
import { inBackground } from "./clock.js";

it("timers that are set in the background hold nothing open, nor do those that they set", async () => {
  const own = globalThis.setTimeout;
  const timers: NodeJS.Timeout[] = [];
  await new Promise<void>((resolve) => {
    const answer = inBackground(() => {
      const later = () => timers.push(setTimeout(resolve, 1));
      timers.push(setTimeout(later, 1));
      return "done";
    });
    expect(answer).toBe("done");
    expect(globalThis.setTimeout).toBe(own);
    // They hold nothing open: this does.
    timers.push(setTimeout(() => {}, 10_000));
  });
  const last = timers.splice(1, 1)[0];
  clearTimeout(last);
  expect(timers.map((timer) => timer.hasRef())).toEqual([false, false]);
  expect(last?.hasRef()).toBe(true);
});

it("leaves setTimeout as it was when the work throws", () => {
  const own = globalThis.setTimeout;
  const work = () => {
    throw new Error("boom");
  };
  expect(() => inBackground(work)).toThrow("boom");
  expect(globalThis.setTimeout).toBe(own);
});
