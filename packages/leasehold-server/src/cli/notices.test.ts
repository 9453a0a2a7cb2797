import { expect, it, vi } from "vitest";
import { notifier, warningsTo } from "./notices.js";

it("prints warnings of the library as sentences, and with --json as JSON lines", () => {
  const write = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  for (const json of [false, true]) {
    warningsTo(notifier(json)).warn({ err: new Error("why") }, "notifications have stopped");
  }
  const lines = write.mock.calls.map(([line]) => line);
  write.mockRestore();
  const message = "notifications have stopped: why";
  expect(lines).toEqual([
    `leasehold: ${message}\n`,
    `${JSON.stringify({ event: "warning", message })}\n`,
  ]);
});
