import { afterEach, expect, it, vi } from "vitest";
import { Starvation } from "./starvation.js";

afterEach(() => {
  vi.useRealTimers();
});

it("keeps no window in which no time has passed", () => {
  vi.useFakeTimers({ toFake: ["Date"] });
  const starving = new Starvation([process.pid]);
  vi.setSystemTime(Date.now() + 10);
  starving.stop();
  expect(starving.records).toHaveLength(1);
  // A look in the same millisecond, and one of a clock that was set back.
  starving.stop();
  vi.setSystemTime(Date.now() - 5);
  starving.stop();
  expect(starving.records).toHaveLength(1);
});
