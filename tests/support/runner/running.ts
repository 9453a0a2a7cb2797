/**
 * The record of what a worker of the test runner is doing. The runner's timeouts name no test that blocks the thread of their
 * timers, and no file whose import does not end. Its own process reads the record, and ends the worker: hang-reporter.ts.
 */
import { rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect } from "vitest";
import { type Running, recordsOf } from "./running-record.js";

/** Its import, and its hooks one after the other: each has a timeout of the runner. */
const OUTSIDE_MS = Number(process.env["HANG_OUTSIDE_MS"] ?? 1_800_000);
/** The hooks around a test. */
const HOOKS_MS = Number(process.env["HANG_HOOKS_MS"] ?? 180_000);

const path = join(tmpdir(), `${recordsOf(process.ppid)}${process.pid}`);
const file = expect.getState().testPath ?? "a test file";
const record = (running: Omit<Running, "pid" | "file">) =>
  writeFileSync(path, JSON.stringify({ pid: process.pid, file, ...running }));

record({ test: "before its first test", limitMs: OUTSIDE_MS });
beforeEach(({ task }) => {
  record({ test: task.fullTestName, limitMs: task.timeout + HOOKS_MS });
});
// Hooks end in reverse order: these are the last.
afterEach(({ task }) => {
  record({ test: `after ${task.fullTestName}`, limitMs: OUTSIDE_MS });
});
afterAll(() => rmSync(path, { force: true }));
