/** What a store decides about a task and its grants: what is answered, and what it keeps. Times in milliseconds. */
import { describe, expect, it } from "vitest";
import {
  CLAIM,
  claimed,
  failure,
  grantOf,
  KEY,
  OTHER_CLAIM,
  pending,
  refused,
  running,
  SEQ,
} from "../../../../tests/support/worlds/task-records.js";
import { claimDigestOf, taskLeaseId } from "../env/index.js";
import { newTaskOf } from "../testing/task-suite/new-task.js";
import * as operators from "./operator-rules.js";
import type { TaskRecord } from "./record.js";
import * as rules from "./rules.js";

describe("enqueue", () => {
  it("makes a pending task that is due now, or when it says", () => {
    const at = "2020-01-01T00:00:00.000Z";
    const { record, outcome } = rules.enqueue(
      null,
      null,
      newTaskOf(KEY, { data: { a: 1 } }),
      7,
      SEQ,
    );
    expect(outcome).toEqual({ status: "enqueued", id: KEY.id });
    expect(record).toMatchObject({
      seq: SEQ,
      state: "pending",
      data: '{"a":1}',
      output: "null",
      error: null,
      failures: 0,
      crashes: 0,
      createdAtMs: 7,
      scheduledAtMs: 7,
      finishedAtMs: null,
      last: null,
      earlier: [],
    });
    expect(pending({ scheduledAt: at }, 7)).toMatchObject({ scheduledAtMs: Date.parse(at) });
  });

  it("repeated changes nothing, and a duplicate names the task that there is", () => {
    const first = running();
    const again = rules.enqueue(first, null, newTaskOf(KEY), 9, SEQ);
    expect(again).toEqual({ record: first, outcome: { status: "enqueued", id: KEY.id } });
    const rival = { ...first, id: "rival" };
    const duplicate = rules.enqueue(null, rival, newTaskOf(KEY), 9, SEQ);
    expect(duplicate).toEqual({ record: null, outcome: { status: "duplicate", id: "rival" } });
    const other = rules.enqueue(first, null, newTaskOf(KEY, { data: "other" }), 9, SEQ);
    expect(other).toEqual({ record: first, outcome: { status: "conflict", id: KEY.id } });
  });
});

describe("claim", () => {
  it("gives a due task to its holder until its expiry", () => {
    const at = new Date(0).toISOString();
    const { record, outcome } = claimed(pending({ data: [1], priority: 3, dedupeKey: "d" }), 40);
    const leaseId = taskLeaseId(claimDigestOf(CLAIM), SEQ);
    expect(outcome).toEqual({
      id: KEY.id,
      kind: "kind",
      queue: "queue",
      priority: 3,
      data: [1],
      leaseId,
      token: 1,
      attempt: 1,
      failures: 0,
      crashes: 0,
      maxAttempts: 3,
      dedupeKey: "d",
      scheduledAt: at,
      version: 1,
      maxRunMs: null,
      postponed: 0,
      previousHolder: null,
      checkpoint: null,
      ttlMs: 1_000,
      remainingMs: 1_000,
    });
    expect(record.state).toBe("running");
    expect(record.last).toEqual({
      attempt: 1,
      holder: "w1",
      leaseId,
      token: 1,
      ttlMs: 1_000,
      startedAtMs: 40,
      heartbeatAtMs: null,
      expiresAtMs: 1_040,
      untilMs: null,
      endedAtMs: null,
      result: null,
      error: null,
      progress: "null",
    });
  });

  it("counts attempts and tokens on, and keeps earlier grants", () => {
    const first = running();
    const back = rules.requeue(first, grantOf(first), 10).record as TaskRecord;
    const { record, outcome } = claimed(back, 20, OTHER_CLAIM, "w2");
    expect(outcome).toMatchObject({ attempt: 2, token: 2, previousHolder: "w1" });
    expect(record.earlier).toEqual([back.last]);
    const again = rules.requeue(record, grantOf(record), 30).record as TaskRecord;
    const third = claimed(again, 40, "3".repeat(48), "w3");
    expect(third.outcome).toMatchObject({ attempt: 3, previousHolder: "w2" });
    expect(third.record.earlier.map(({ holder }) => holder)).toEqual(["w1", "w2"]);
  });

  it("keeps the latest hundred grants, its own among them", () => {
    let record = pending();
    for (let n = 1; n <= 102; n += 1) {
      record = claimed(record, n, `${n}`.padStart(48, "0"), `w${n}`).record;
      if (n < 102) record = rules.requeue(record, grantOf(record), n).record as TaskRecord;
    }
    expect(record.earlier).toHaveLength(99);
    expect(record.earlier[0]).toMatchObject({ holder: "w3" });
    expect(record.last).toMatchObject({ holder: "w102", attempt: 102 });
  });

  it("is not asked for tasks that are not due, nor given a token that does not grow", () => {
    expect(() => claimed(running(), 0, OTHER_CLAIM)).toThrow("pending");
    expect(() => claimed(pending({}, 50), 49)).toThrow("due");
    const first = running();
    const back = rules.requeue(first, grantOf(first), 10).record as TaskRecord;
    expect(() => claimed(back, 20, OTHER_CLAIM, "w2", (last) => last)).toThrow("tokens");
  });

  it("repeated answers the same grant while it lives, and nothing to another claim", () => {
    const record = running();
    expect(rules.claimAgain(record, claimDigestOf(CLAIM), 999)).toMatchObject({
      token: 1,
      remainingMs: 1,
    });
    expect(rules.claimAgain(record, claimDigestOf(CLAIM), 1_000)).toBeNull();
    expect(rules.claimAgain(record, claimDigestOf(OTHER_CLAIM), 0)).toBeNull();
    expect(rules.claimAgain(pending(), claimDigestOf(CLAIM), 0)).toBeNull();
    const done = rules.complete(record, { ...grantOf(record), output: 1 }, 10).record as TaskRecord;
    expect(rules.claimAgain(done, claimDigestOf(CLAIM), 10)).toBeNull();
  });
});

describe("heartbeat", () => {
  it("extends the grant, never shortens it, and keeps its progress", () => {
    const record = running();
    const beat = (from: TaskRecord, nowMs: number, ttlMs: number, more: object = {}) =>
      rules.heartbeat(from, { ...grantOf(from), ttlMs, ...more }, nowMs);
    const first = beat(record, 500, 1_000, { progress: { done: 5 } });
    expect(first.outcome).toEqual({ status: "renewed", ttlMs: 1_000, remainingMs: 1_000 });
    expect(first.record?.last).toMatchObject({
      heartbeatAtMs: 500,
      expiresAtMs: 1_500,
      progress: '{"done":5}',
    });
    const second = beat(first.record as TaskRecord, 600, 10);
    expect(second.outcome).toEqual({ status: "renewed", ttlMs: 10, remainingMs: 900 });
    expect(second.record?.last).toMatchObject({ expiresAtMs: 1_500, progress: '{"done":5}' });
  });

  it("keeps its latest checkpoint, which the next claim is given", () => {
    const record = running();
    const beat = (from: TaskRecord, more: object = {}) =>
      rules.heartbeat(from, { ...grantOf(from), ttlMs: 1_000, ...more }, 500).record as TaskRecord;
    const noted = beat(record, { checkpoint: { page: 7 } });
    expect(noted.checkpoint).toBe('{"page":7}');
    const later = beat(noted);
    expect(later.checkpoint).toBe('{"page":7}');
    const back = rules.requeue(later, grantOf(later), 600).record as TaskRecord;
    expect(claimed(back, 700, OTHER_CLAIM).outcome.checkpoint).toEqual({ page: 7 });
    expect(beat(later, { checkpoint: null }).checkpoint).toBe("null");
  });

  it.each([
    ["no task", null, 0, "unknown"],
    ["an expired grant", running(), 1_000, "expired"],
    ["a task that waits", pending(), 0, "taken"],
  ] as const)("is refused for %s", (_, record, nowMs, reason) => {
    const grant = record ? grantOf(record) : { ...KEY, leaseId: "l", token: 1 };
    const { outcome, record: after } = rules.heartbeat(record, { ...grant, ttlMs: 1 }, nowMs);
    expect(outcome).toEqual(refused(reason));
    expect(after).toBe(record);
  });

  it("is refused for another token or lease id", () => {
    const record = running();
    for (const wrong of [{ token: 2 }, { leaseId: "other" }]) {
      const asked = { ...grantOf(record), ttlMs: 1, ...wrong };
      expect(rules.heartbeat(record, asked, 0).outcome).toEqual(refused("taken"));
    }
  });
});

describe("complete", () => {
  it("ends the task with its output, and repeated answers the first one", () => {
    const record = running();
    const first = rules.complete(record, { ...grantOf(record), output: { a: 1 } }, 300);
    expect(first.outcome).toEqual({ status: "completed", repeated: false, output: { a: 1 } });
    const done = first.record as TaskRecord;
    expect(done).toMatchObject({ state: "done", output: '{"a":1}', finishedAtMs: 300 });
    expect(done.last).toMatchObject({ result: "done", endedAtMs: 300, error: null });
    // Also after its expiry.
    const again = rules.complete(done, { ...grantOf(done), output: "other" }, 9_000);
    expect(again.outcome).toEqual({ status: "completed", repeated: true, output: { a: 1 } });
    expect(again.record).toBe(done);
    const late = rules.complete(done, { ...grantOf(done), token: 9, output: 1 }, 300);
    expect(late).toEqual({ record: done, outcome: refused("finished") });
    const expired = rules.complete(record, { ...grantOf(record), output: 1 }, 1_000);
    expect(expired).toEqual({ record, outcome: refused("expired") });
    const none = rules.complete(null, { ...grantOf(record), output: 1 }, 0);
    expect(none).toEqual({ record: null, outcome: refused("unknown") });
  });
});

describe("fail", () => {
  it("lets the task wait for its next attempt, and repeated says how long", () => {
    const record = running();
    const { outcome, record: after } = rules.fail(record, failure(record), 100, 0);
    expect(outcome).toEqual({
      status: "recorded",
      repeated: false,
      state: "pending",
      retryInMs: 500,
    });
    const waiting = after as TaskRecord;
    expect(waiting).toMatchObject({
      state: "pending",
      failures: 1,
      error: "broken",
      scheduledAtMs: 600,
      finishedAtMs: null,
    });
    expect(waiting.last).toMatchObject({ result: "failed", error: "broken", endedAtMs: 100 });
    const again = (nowMs: number) => rules.fail(waiting, failure(waiting), nowMs, 0.9);
    expect(again(250)).toEqual({
      record: waiting,
      outcome: { status: "recorded", repeated: true, state: "pending", retryInMs: 350 },
    });
    expect(again(700).outcome).toMatchObject({ retryInMs: 0 });
    const next = claimed(waiting, 600, OTHER_CLAIM).record;
    const late = rules.fail(next, failure(record), 700, 0);
    expect(late).toEqual({ record: next, outcome: refused("taken") });
  });

  it("waits as long as its caller says", () => {
    const record = running();
    const { outcome, record: after } = rules.fail(record, failure(record, { retryInMs: 7 }), 1, 0);
    expect(outcome).toMatchObject({ state: "pending", retryInMs: 7 });
    expect(after).toMatchObject({ scheduledAtMs: 8 });
  });

  it.each([
    ["that is final", { maxAttempts: 3 }, { final: true }],
    ["of the last attempt", { maxAttempts: 1 }, {}],
  ])("%s ends the task, and repeated says so", (_, change, more) => {
    const record = running(change);
    const first = rules.fail(record, failure(record, more), 100, 0);
    const outcome = { status: "recorded", repeated: false, state: "dead", retryInMs: null };
    expect(first.outcome).toEqual(outcome);
    expect(first.record).toMatchObject({ state: "dead", failures: 1, finishedAtMs: 100 });
    const dead = first.record as TaskRecord;
    const again = rules.fail(dead, failure(dead), 9_000, 0);
    expect(again).toEqual({ record: dead, outcome: { ...outcome, repeated: true } });
    const cancelled = { ...dead, state: "cancelled" as const };
    expect(rules.fail(cancelled, failure(dead), 9_000, 0).outcome).toEqual(refused("cancelled"));
  });

  it("is refused after the expiry, and without a task", () => {
    const record = running();
    expect(rules.fail(record, failure(record), 1_000, 0).outcome).toEqual(refused("expired"));
    expect(rules.fail(null, failure(record), 0, 0).outcome).toEqual(refused("unknown"));
    const done = rules.complete(record, { ...grantOf(record), output: 1 }, 1).record as TaskRecord;
    expect(rules.fail(done, failure(record), 1, 0).outcome).toEqual(refused("finished"));
  });
});

describe("requeue", () => {
  it("gives the task back to its place, and repeated is answered alike", () => {
    const record = running();
    const { outcome, record: after } = rules.requeue(record, grantOf(record), 100);
    expect(outcome).toEqual({ status: "returned", repeated: false });
    const back = after as TaskRecord;
    expect(back).toMatchObject({ state: "pending", scheduledAtMs: 0, failures: 0, crashes: 0 });
    expect(back.last).toMatchObject({ result: "returned", endedAtMs: 100 });
    const again = rules.requeue(back, grantOf(record), 9_000);
    expect(again).toEqual({ record: back, outcome: { status: "returned", repeated: true } });
    const other = rules.requeue(back, { ...grantOf(record), token: 9 }, 100);
    expect(other).toEqual({ record: back, outcome: refused("taken") });
    const next = claimed(back, 200, OTHER_CLAIM).record;
    expect(rules.requeue(next, grantOf(record), 200).outcome).toEqual(refused("taken"));
    expect(rules.requeue(record, grantOf(record), 1_000).outcome).toEqual(refused("expired"));
    expect(rules.requeue(null, grantOf(record), 0).outcome).toEqual(refused("unknown"));
  });

  it("does not answer for a failure as if it were one", () => {
    const record = running();
    const failed = rules.fail(record, failure(record), 1, 0).record as TaskRecord;
    expect(rules.requeue(failed, grantOf(record), 1).outcome).toEqual(refused("expired"));
    const back = rules.requeue(record, grantOf(record), 1).record as TaskRecord;
    expect(rules.fail(back, failure(record), 1, 0).outcome).toEqual(refused("expired"));
    const cancelled = operators.cancel(back, 2).record;
    expect(rules.requeue(cancelled, grantOf(record), 3).outcome).toEqual(refused("cancelled"));
  });
});
