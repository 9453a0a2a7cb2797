import { expect, it, onTestFinished } from "vitest";
import type { Clock } from "../env/index.js";
import type { LeaseView } from "../lease/index.js";
import { type ManualClock, manualEnv } from "../testing/index.js";
import { type GrantHistory, startRecorder } from "./index.js";

interface Faulty extends GrantHistory {
  /** What becomes of calls from now on. `hang`: they never end. */
  fault: "none" | "fail" | "hang";
  /** The tokens of each batch that was written. */
  readonly batches: number[][];
  calls: number;
}

function faultyHistory(): Faulty {
  const history: Faulty = {
    fault: "none",
    batches: [],
    calls: 0,
    async append(grants) {
      history.calls += 1;
      if (history.fault === "fail") throw new Error("the database is unavailable");
      if (history.fault === "hang") return new Promise(() => {});
      history.batches.push(grants.map(({ token }) => token));
    },
    list: async () => ({ items: [], nextCursor: null }),
    find: async () => null,
    collect: async () => 0,
  };
  return history;
}

function open() {
  const logged: [message: string, fields: object][] = [];
  const log = (fields: object, message: string) => void logged.push([message, fields]);
  const env = manualEnv({ logger: { debug: log, info: log, warn: log, error: log } });
  const history = faultyHistory();
  const recorder = startRecorder(history, env);
  const clock: ManualClock = env.clock;
  onTestFinished(() => expect(clock.pendingTimers).toBe(0));
  const record = (...tokens: number[]) => {
    for (const token of tokens) recorder.record(grant(token));
  };
  return { recorder, record, history, clock, logged };
}

const grant = (token: number): LeaseView => ({
  namespace: "n",
  resource: "r",
  holder: "h",
  grantId: `${token}`,
  token,
  state: "expired",
  ttlMs: 1,
  remainingMs: 0,
  grantedAt: null,
  renewedAt: null,
  expiresAt: null,
  metadata: null,
});
const range = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, index) => from + index);
const WRITTEN_AGAIN = "ended grants are written to the history again";
const FAILED = "could not write ended grants to the history";
const MISSING = "ended grants are missing in the history";
const MAYBE_MISSING = "ended grants may be missing in the history";

it("writes about a second later, all at once, in their order", async () => {
  const { record, history, clock } = open();
  record(1);
  await clock.advance(500);
  record(2, 3);
  await clock.advance(499);
  expect(history.batches).toEqual([]);
  await clock.advance(1);
  expect(history.batches).toEqual([[1, 2, 3]]);
  record(4);
  await clock.advance(1_000);
  expect(history.batches).toEqual([[1, 2, 3], [4]]);
});

it("does not wait for 500, and writes no more at once", async () => {
  const { record, history, clock } = open();
  record(...range(0, 499));
  await clock.settle();
  expect(history.calls).toBe(0);
  record(...range(499, 1_200));
  await clock.settle();
  expect(history.batches.map((batch) => batch.length)).toEqual([500, 500, 200]);
  expect(history.batches.flat()).toEqual(range(0, 1_200));
});

it("writes a full batch at once", async () => {
  const { record, history, clock } = open();
  record(...range(0, 500));
  await clock.settle();
  expect(history.batches).toEqual([range(0, 500)]);
});

it("goes on after a flush that found nothing to write", async () => {
  const { recorder, record, history, clock } = open();
  await recorder.flush();
  expect(history.calls).toBe(0);
  record(1);
  await clock.advance(1_000);
  expect(history.batches).toEqual([[1]]);
});

it("sets no timer while it writes", async () => {
  const { record, history, clock } = open();
  record(1);
  history.fault = "hang";
  await clock.advance(1_000);
  expect(history.calls).toBe(1);
  record(2);
  expect(clock.pendingTimers).toBe(0);
});

it("does not hold the process open", () => {
  const { clock, ...env } = manualEnv();
  const timers: unknown[] = [];
  const timer: Clock["timer"] = (_delayMs, _callback, options) => {
    timers.push(options);
    return { cancel() {} };
  };
  startRecorder(faultyHistory(), { ...env, clock: { ...clock, timer } }).record(grant(1));
  expect(timers).toEqual([{ background: true }]);
});

it("tries again with pauses that grow, and says so once", async () => {
  const { record, history, clock, logged } = open();
  history.fault = "fail";
  record(1);
  await clock.advance(1_000);
  expect(history.calls).toBe(1);
  record(...range(2, 700));
  await clock.advance(1_999);
  expect(history.calls).toBe(1);
  await clock.advance(1);
  expect(history.calls).toBe(2);
  await clock.advance(600_000);
  expect(history.calls).toBeGreaterThan(15);
  expect(history.calls).toBeLessThan(30);
  expect(logged).toEqual([[FAILED, { err: expect.any(Error) }]]);
  history.fault = "none";
  await clock.advance(30_000);
  expect(history.batches.flat()).toEqual(range(1, 700));
  expect(logged.slice(1)).toEqual([[WRITTEN_AGAIN, {}]]);
});

it("keeps the last 10,000 while it cannot write, and tells how many are missing", async () => {
  const { record, history, clock, logged } = open();
  history.fault = "fail";
  record(...range(0, 10_000));
  await clock.advance(1_000);
  record(...range(10_000, 10_123));
  await clock.advance(60_000);
  history.fault = "none";
  await clock.advance(30_000);
  expect(history.batches.flat()).toEqual(range(123, 10_123));
  expect(logged.slice(1)).toEqual([[MISSING, { dropped: 123 }]]);
  record(1);
  await clock.advance(1_000);
  expect(history.batches.at(-1)).toEqual([1]);
  expect(logged).toHaveLength(2);
});

it("goes on with what is recorded the moment a write has ended", async () => {
  const { record, history, clock } = open();
  record(1);
  const { append } = history;
  history.append = async (grants) => {
    await append(grants);
    // Lands in each of the next turns of the microtask queue.
    let turn = Promise.resolve();
    for (let token = 100; token < 110; token++) turn = turn.then(() => record(token));
    history.append = append;
  };
  await clock.advance(1_000);
  await clock.advance(1_000);
  expect(history.batches.flat()).toEqual([1, ...range(100, 110)]);
});

it("reads what was recorded before", async () => {
  const { recorder, record, history } = open();
  record(1);
  await recorder.list({ namespace: "n" });
  expect(history.batches).toEqual([[1]]);
  record(2);
  await recorder.find({ namespace: "n", resource: "r" }, "2");
  expect(history.batches).toEqual([[1], [2]]);
  await recorder.flush();
  expect(history.calls).toBe(2);
});

it("writes what is left when stopped, and at once what comes later", async () => {
  const { recorder, record, history, clock, logged } = open();
  record(1, 2);
  await recorder.stop();
  expect(history.batches).toEqual([[1, 2]]);
  expect(logged).toEqual([]);
  record(3);
  await clock.settle();
  expect(history.batches).toEqual([[1, 2], [3]]);
});

it("stops within 2 s of a database that hangs, and tells what is missing", async () => {
  const { recorder, record, history, clock, logged } = open();
  record(1);
  await clock.advance(1_000);
  history.fault = "hang";
  record(...range(2, 700));
  await clock.settle();
  let stopped = false;
  const stopping = recorder.stop().then(() => {
    stopped = true;
  });
  await clock.advance(1_999);
  expect(stopped).toBe(false);
  await clock.advance(1);
  await stopping;
  expect(logged).toEqual([[MAYBE_MISSING, { dropped: 698 }]]);
});

it("stops at once when it cannot write", async () => {
  const { recorder, record, history, clock, logged } = open();
  history.fault = "fail";
  record(1, 2);
  await clock.advance(1_000);
  await recorder.stop();
  expect(logged).toEqual([
    [FAILED, { err: expect.any(Error) }],
    [MAYBE_MISSING, { dropped: 2 }],
  ]);
});
