import { expect, it } from "vitest";
import { guardedLogger } from "./guarded-logger.js";
import { silentLogger } from "./logger.js";

it.each([
  [undefined, "undefined"],
  [Symbol("cut"), "Symbol(cut)"],
  [null, "null"],
  ["a text", "a text"],
  [() => {}, "[function]"],
  [new Map([["code", 5]]), 'Map {"code" => 5}'],
  [/a+/g, "/a+/g"],
  [new Date(Number.NaN), "Invalid Date"],
  [{ code: 5 }, '{"code":5}'],
  [
    new Response(null, { status: 429, statusText: "Too Many Requests" }),
    "Response 429 Too Many Requests",
  ],
])("a line about thrown %s has it as text, which loggers do not leave out", (thrown, text) => {
  const lines: object[] = [];
  const write = (fields: object) => void lines.push(fields);
  const logger = guardedLogger({ ...silentLogger, warn: write, error: write });
  logger.error({ err: thrown, resource: "r" }, "an onLost handler threw");
  logger.warn({ err: thrown }, "background work failed");
  expect(lines).toEqual([{ err: text, resource: "r" }, { err: text }]);
});

it("a line without an error, and one with an error, stay as they are", () => {
  const lines: object[] = [];
  const logger = guardedLogger({ ...silentLogger, warn: (fields) => void lines.push(fields) });
  const [plain, failed] = [{ resource: "r" }, { err: new Error("x") }];
  logger.warn(plain, "a");
  logger.warn(failed, "b");
  expect(lines[0]).toBe(plain);
  expect(lines[1]).toBe(failed);
});
