import { it, vi } from "vitest";

it("leaves the timers of a mock", () => {
  vi.useFakeTimers();
});
