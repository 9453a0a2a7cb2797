import { it } from "vitest";

it("waits without a turn of the event loop", async () => {
  for (;;) await Promise.resolve();
});
