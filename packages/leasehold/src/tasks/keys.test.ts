/** Which task of a concurrency key may run next: the rule of the stores in memory, beside the statements of PostgreSQL. */
import { expect, it } from "vitest";
import { hasPlace, headOfKey, type KeyTasks } from "./keys.js";
import type { AttemptRecord, TaskRecord } from "./record.js";

const NOW_MS = 1_000;
const attempt = (expiresAtMs: number) => ({ expiresAtMs }) as AttemptRecord;
const task = (seq: number, more: Partial<TaskRecord> = {}) =>
  ({ seq, scheduledAtMs: 0, last: null, ...more }) as TaskRecord;
const live = (seq: number) => task(seq, { last: attempt(NOW_MS + 1) });
const expired = (seq: number) => task(seq, { last: attempt(NOW_MS) });
const later = (seq: number) => task(seq, { scheduledAtMs: NOW_MS + 1 });

const place = (running: readonly TaskRecord[], perKey: number) =>
  hasPlace({ pending: [], running, declared: { perKey } as KeyTasks["declared"] }, NOW_MS);
const head = (pending: readonly TaskRecord[], running: readonly TaskRecord[] = []) =>
  headOfKey({ pending, running, declared: { perKey: 2 } as KeyTasks["declared"] }, NOW_MS)?.seq;

it("has a place while fewer than perKey tasks hold a live lease", () => {
  expect(place([], 1)).toBe(true);
  expect(place([live(1)], 1)).toBe(false);
  expect(place([live(1)], 2)).toBe(true);
  expect(place([live(1), live(2)], 2)).toBe(false);
  expect(place([live(1), expired(2), task(3)], 2)).toBe(true);
});

it("begins with the first task that is due", () => {
  expect(head([])).toBe(undefined);
  expect(head([task(3), task(4)])).toBe(3);
  expect(head([task(3)], [live(1)])).toBe(3);
  expect(head([task(3, { scheduledAtMs: NOW_MS })])).toBe(3);
});

it("passes over a task that is scheduled for later, but not over one that waits for its retry", () => {
  expect(head([later(3), task(4)])).toBe(4);
  expect(head([later(3)])).toBe(undefined);
  expect(head([{ ...later(3), last: attempt(0) }, task(4)])).toBe(undefined);
});

it("waits for the reaper if an older task has lost its lease, and not for a newer one", () => {
  expect(head([task(3)], [expired(2)])).toBe(undefined);
  expect(head([task(3)], [task(2)])).toBe(undefined);
  expect(head([task(3), task(5)], [expired(4)])).toBe(3);
  expect(head([later(3), task(5)], [expired(7), expired(4), live(1)])).toBe(undefined);
});
