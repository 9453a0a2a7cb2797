import { expect, it } from "vitest";
import { formatDuration, parseDuration } from "./duration.js";

it.each([
  ["0", 0],
  ["500ms", 500],
  ["0.5s", 500],
  ["30s", 30_000],
  ["1.5m", 90_000],
  ["2h", 7_200_000],
  ["90d", 7_776_000_000],
  ["0.0s", 0],
  ["1.4ms", 1],
  ["0.4ms", 0.4],
  ["0.9ms", 0.9],
])("reads %s", (text, ms) => expect(parseDuration(text)).toBe(ms));

it.each(["", "5", "s", "-5s", "5 s", "5sec", "1m30s", "1e3ms", "Infinity", "NaNs", ".5s", "5s "])(
  "refuses %j",
  (text) => expect(parseDuration(text)).toBeNull(),
);

it.each([
  [0, "0ms"],
  [999.4, "999ms"],
  [1_000, "1.0s"],
  [9_949, "9.9s"],
  [9_960, "10s"],
  [119_000, "119s"],
  [120_000, "2m"],
  [7_200_000, "2h"],
])("writes %d ms as %s", (ms, text) => expect(formatDuration(ms)).toBe(text));
