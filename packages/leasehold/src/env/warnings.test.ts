import { readdirSync, readFileSync } from "node:fs";
import { expect, it, vi } from "vitest";
import { isHeldByOneTimer } from "./idle.js";
import { WARNING_CODES, warningLogger } from "./warnings.js";

const root = new URL("../../../../", import.meta.url);

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

it("has a code for every warning of the sources, and each is in the documentation", () => {
  const folder = new URL("packages/leasehold/src/", root);
  const logged = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => /(?<!\.test)\.ts$/.test(path))
    .map((path) => readFileSync(new URL(path, folder), "utf8"))
    .flatMap((text) => [...text.matchAll(/logger\??\.(?:warn|error)\(\s*[^"`]*?,\s*"([^"]+)"/gs)])
    .map(([, message = ""]) => message);
  expect(logged.length).toBeGreaterThan(20);
  expect(logged.filter((message) => !(message in WARNING_CODES))).toEqual([]);
  const page = readFileSync(new URL("docs/warnings.md", root), "utf8");
  const documented = [...page.matchAll(/^\| `(LEASEHOLD_W_\w+)` \|/gm)].map(([, code]) => code);
  const codes = new Set<string>([...Object.values(WARNING_CODES), "LEASEHOLD_W_LOGGED"]);
  expect(documented).toEqual([...codes].sort());
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
