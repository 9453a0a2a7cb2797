/** What a store decides about a task that ends, or starts over: what is answered, and what it keeps. Times in milliseconds. */
import { describe, expect, it } from "vitest";
import {
  claimed,
  failure,
  grantOf,
  KEY,
  OTHER_CLAIM,
  pending,
  running,
} from "../../../../tests/support/worlds/task-records.js";
import * as operators from "./operator-rules.js";
import type { TaskRecord } from "./record.js";
import * as rules from "./rules.js";

describe("cancel", () => {
  it("ends a task that waits or runs, with its grant, and repeated is ok", () => {
    const waiting = operators.cancel(pending(), 50);
    expect(waiting.outcome).toEqual({ status: "ok", state: "cancelled" });
    expect(waiting.record).toMatchObject({ state: "cancelled", finishedAtMs: 50, last: null });
    const record = running();
    const stopped = operators.cancel(record, 60).record as TaskRecord;
    expect(stopped).toMatchObject({ state: "cancelled", finishedAtMs: 60 });
    expect(stopped.last).toMatchObject({ result: "cancelled", endedAtMs: 60 });
    const again = operators.cancel(stopped, 70);
    expect(again).toEqual({ record: stopped, outcome: { status: "ok", state: "cancelled" } });
  });

  it("leaves alone what has ended, and what there is not", () => {
    const record = running();
    const done = rules.complete(record, { ...grantOf(record), output: 1 }, 1).record;
    const conflict = { status: "conflict", state: "done" };
    expect(operators.cancel(done, 2)).toEqual({ record: done, outcome: conflict });
    expect(operators.cancel(null, 2)).toEqual({ record: null, outcome: { status: "unknown" } });
  });
});

describe("a task that has ended", () => {
  const retain = { doneMs: 1_000, deadMs: 20_000 };
  const completed = (record: TaskRecord) =>
    rules.complete(record, { ...grantOf(record), output: 1 }, 100);
  const failed = (record: TaskRecord) =>
    rules.fail(record, failure(record, { final: true }), 100, 0);

  it.each([
    ["done", completed, 1_100],
    ["dead", failed, 20_100],
    ["cancelled", (record: TaskRecord) => operators.cancel(record, 100), 20_100],
    ["dead by a crash", (record: TaskRecord) => operators.reap(record, 1_000), 21_000],
  ])("is kept as long as it says when it is %s", (_, end, deleteAtMs) => {
    expect(end(running({ crashLimit: 1, retain }))?.record).toMatchObject({ deleteAtMs });
    expect(end(running({ crashLimit: 1 }))?.record).toMatchObject({ deleteAtMs: null });
  });
});

describe("retry", () => {
  const dead = () => {
    const record = running({ maxAttempts: 1 });
    const failed = rules.fail(record, failure(record), 100, 0).record as TaskRecord;
    return { ...failed, crashes: 2 };
  };

  it("lets a dead or cancelled task start over, and a waiting one at once", () => {
    for (const record of [dead(), { ...dead(), state: "cancelled" as const }]) {
      const { outcome, record: after } = operators.retry(record, null, 500);
      expect(outcome).toEqual({ status: "ok", state: "pending" });
      expect(after).toMatchObject({
        state: "pending",
        failures: 0,
        crashes: 0,
        scheduledAtMs: 500,
        finishedAtMs: null,
        last: record.last,
      });
    }
    const late = { ...pending(), scheduledAtMs: 9_000 };
    expect(operators.retry(late, null, 500).record).toMatchObject({ scheduledAtMs: 500 });
    const due = { ...pending(), scheduledAtMs: 100 };
    // A rival is no obstacle to a task that waits already.
    expect(operators.retry(due, dead(), 500).record).toMatchObject({ scheduledAtMs: 100 });
  });

  it("is a conflict for tasks that run or are done, or while a rival is unfinished", () => {
    const record = running();
    const done = rules.complete(record, { ...grantOf(record), output: 1 }, 1).record;
    for (const [one, rival] of [
      [record, null],
      [done, null],
      [dead(), pending()],
    ] as const) {
      const { outcome, record: after } = operators.retry(one, rival, 500);
      expect(outcome).toEqual({ status: "conflict", state: one?.state });
      expect(after).toBe(one);
    }
    expect(operators.retry(null, null, 0)).toEqual({
      record: null,
      outcome: { status: "unknown" },
    });
  });
});

describe("reap", () => {
  it("gives a task back whose grant has expired, and not before", () => {
    const record = running({ crashLimit: 2 });
    expect(operators.reap(record, 999)).toBeNull();
    const first = operators.reap(record, 1_000);
    expect(first?.outcome).toEqual({ ...KEY, holder: "w1", token: 1, state: "pending" });
    const back = first?.record as TaskRecord;
    expect(back).toMatchObject({ state: "pending", crashes: 1, failures: 0, finishedAtMs: null });
    expect(back.last).toMatchObject({ result: "expired", endedAtMs: 1_000 });
    expect(operators.reap(back, 2_000)).toBeNull();
    const second = operators.reap(claimed(back, 2_000, OTHER_CLAIM, "w2").record, 3_000);
    expect(second?.outcome).toEqual({ ...KEY, holder: "w2", token: 2, state: "dead" });
    expect(second?.record).toMatchObject({ state: "dead", crashes: 2, finishedAtMs: 3_000 });
    expect(second?.record.last).toMatchObject({ result: "expired" });
  });
});
