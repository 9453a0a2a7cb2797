import { expect, it, vi } from "vitest";
import { isHeldByOneTimer } from "./idle.js";
import { warningLogger } from "./warnings.js";

it("emits each warning once, with its code, cause and fields", () => {
  const emit = vi.fn();
  const logger = warningLogger(emit);
  const err = new RangeError("too far");
  for (let times = 0; times < 3; times += 1) {
    logger.warn({ err, id: "1", kind: "mail" }, "task failed");
    logger.error({ resource: "r" }, "the work failed");
  }
  logger.warn({ err, id: "2", kind: "sms" }, "task failed");
  logger.info({}, "not a warning");
  logger.debug({}, "not a warning");
  expect(emit.mock.calls).toEqual([
    [
      "task failed: RangeError: too far",
      {
        type: "LeaseholdWarning",
        code: "LEASEHOLD_W_TASK_FAILED",
        detail: expect.stringMatching(
          /^id: 1, kind: mail\nRangeError: too far\n +at .*\nReported once\./s,
        ),
      },
    ],
    ["the work failed", expect.objectContaining({ code: "LEASEHOLD_W_WORK_FAILED" })],
    [
      "task failed: RangeError: too far",
      expect.objectContaining({ code: "LEASEHOLD_W_TASK_FAILED" }),
    ],
  ]);
});

it("emits no character that a terminal would obey or hide", () => {
  const emit = vi.fn();
  warningLogger(emit).warn({ kind: "\u001b]0;x\u0007", err: new Error("\u202e") }, "\u009b2J");
  expect(emit.mock.calls).toEqual([
    [
      "\\u{9b}2J: Error: \\u{202e}",
      expect.objectContaining({
        detail: expect.stringContaining("kind: \\u{1b}]0;x\\u{7}\nError"),
      }),
    ],
  ]);
});

it("emits what a handler logs itself, at most a hundred different lines", () => {
  const emit = vi.fn();
  const logger = warningLogger(emit);
  for (let line = 0; line < 1_000; line += 1) logger.warn({}, `line ${line}`);
  expect(emit).toHaveBeenCalledTimes(100);
  expect(emit.mock.lastCall?.[1]).toMatchObject({ code: "LEASEHOLD_W_LOGGED" });
});

it.each([
  [["Timeout"], true],
  [["TTYWrap", "TTYWrap", "Timeout"], true],
  [["Timeout", "Timeout"], false],
  [["TCPServerWrap", "Timeout"], false],
  [[], false],
])("of %o says whether one timer holds the process: %s", (active, isHeld) => {
  expect(isHeldByOneTimer({ getActiveResourcesInfo: () => [...active] })).toBe(isHeld);
  expect(isHeldByOneTimer({})).toBe(false);
});
