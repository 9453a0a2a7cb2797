/** Wrong limits: each error names the field and what it must be. And when a worker declares the right ones. */
import { describe, expect, it, onTestFinished } from "vitest";
import { tasksWorld } from "../../../../tests/support/worlds/tasks-world.js";
import { connect, defineTask, type Leasehold, type LimitOptions } from "../index.js";
import { StoreUnavailableError } from "../lease/index.js";
import type { TaskLimits, TaskStore } from "./port.js";

/** JavaScript callers have no types. */
const wrong = (options: unknown) => options as LimitOptions;
const refusal = (path: string, message: string) =>
  expect.objectContaining({
    code: "INVALID_OPTION",
    path,
    message: expect.stringContaining(`${path} ${message}`) as string,
  }) as Error;

/** What a limit must not be, below the path of the limit. */
const WRONG: readonly (readonly [limit: unknown, field: string, message: string])[] = [
  [null, "", "must be an object, got null"],
  [5, "", "must be an object, got the number 5"],
  [{}, "", "must have running or rate"],
  [{ running: undefined, rate: undefined }, "", "must have running or rate"],
  [{ running: 0 }, ".running", "must be from 1 to 100000, not 0"],
  [{ running: 100_001 }, ".running", "must be from 1 to 100000, not 100001"],
  [{ running: 1.5 }, ".running", "must be a whole number, not 1.5"],
  [{ running: "5" }, ".running", 'must be a number, not "5"'],
  [{ running: null }, ".running", "must be a number, not null"],
  [{ rate: 100 }, ".rate", "must be an object, got the number 100"],
  [{ rate: null }, ".rate", "must be an object, got null"],
  [{ rate: { perMs: 1_000 } }, ".rate.limit", "must be a number, not undefined"],
  [{ rate: { limit: 0, perMs: 1_000 } }, ".rate.limit", "must be from 1 to 1000000, not 0"],
  [{ rate: { limit: 1e6 + 1, perMs: 1 } }, ".rate.limit", "must be from 1 to 1000000, not 1000001"],
  [{ rate: { limit: 0.5, perMs: 1 } }, ".rate.limit", "must be from 1 to 1000000, not 0.5"],
  [{ rate: { limit: 100 } }, ".rate.perMs", "must be a number, not undefined"],
  [{ rate: { limit: 100, perMs: "1m" } }, ".rate.perMs", 'must be a number, not "1m"'],
  [{ rate: { limit: 100, perMs: 0 } }, ".rate.perMs", "must be from 1 to 86400000, not 0"],
  [{ rate: { limit: 1, perMs: 86_400_001 } }, ".rate.perMs", "must be from 1 to 86400000"],
  [{ running: 5, rate: { limit: 100, perMs: 0 } }, ".rate.perMs", "must be from 1 to 86400000"],
];
/** Misspelled fields are named without the path. */
const UNKNOWN: readonly (readonly [limit: unknown, field: string, message: string])[] = [
  [{ runing: 5 }, "runing", "is not an option; known are running, rate"],
  [{ rate: { limit: 1, perMs: 1, per: "s" } }, "per", "is not an option; known are limit, perMs"],
];
const below = (path: string) => [
  ...WRONG.map(([limit, field, message]) => [limit, `${path}${field}`, message] as const),
  ...UNKNOWN,
];

async function client(): Promise<Leasehold> {
  const leasehold = await connect("memory:");
  onTestFinished(() => leasehold.close());
  return leasehold;
}

describe("a wrong limit", () => {
  it.each(below("limit"))("of a kind, %j, is refused: %s %s", (limit, path, message) => {
    const define = () => defineTask("report", { limit: wrong(limit) });
    expect(define).toThrow(refusal(path, message));
  });

  it.each(below("queueLimits.mails"))(
    "of a queue, %j, is refused by work: %s %s",
    async (limit, path, message) => {
      const { tasks } = await client();
      const handlers = [defineTask("report").handle(() => null)];
      const work = () => tasks.work(handlers, { queueLimits: { mails: wrong(limit) } });
      expect(work).toThrow(refusal(path, message));
      expect(await tasks.limits.list()).toEqual([]);
    },
  );

  it.each(below("limit"))(
    "that is declared, %j, is refused: %s %s",
    async (limit, path, message) => {
      const { limits } = (await client()).tasks;
      const declared = limits.declare("queue", "mails", wrong(limit));
      await expect(declared).rejects.toThrow(refusal(path, message));
      expect(await limits.list()).toEqual([]);
    },
  );
});

it.each([
  ["queues", "mails", "scope", "must be one of kind, queue"],
  [undefined, "mails", "scope", "must be one of kind, queue"],
  ["kind", "", "name", ""],
  ["kind", undefined, "name", ""],
  ["queue", "x".repeat(300), "name", ""],
  ["queue", "a\0b", "name", ""],
])("the %j %j has no limit", async (scope, name, path, message) => {
  const { limits } = (await client()).tasks;
  const refused = refusal(path, message);
  await expect(limits.declare(scope as "kind", name as string, { running: 1 })).rejects.toThrow(
    refused,
  );
  await expect(limits.remove(scope as "kind", name as string)).rejects.toThrow(refused);
});

it.each([
  ["x", "queueLimits", "must be an object, got a string"],
  [["mails"], "queueLimits", "must be an object, got an array"],
  [{ "": { running: 1 } }, "name", ""],
])("the limits of queues %j are refused", async (queueLimits, path, message) => {
  const { tasks } = await client();
  const handlers = [defineTask("report").handle(() => null)];
  const work = () =>
    tasks.work(handlers, { queueLimits: queueLimits as Record<string, LimitOptions> });
  expect(work).toThrow(refusal(path, message));
});

it("the rate of a concurrency key is refused like that of a limit, and without a key", () => {
  const define = (options: object) => () => defineTask("pay", options);
  const concurrencyKey = () => "ada";
  const rates = WRONG.flatMap(([limit, field, message]) => {
    const { rate } = (limit ?? {}) as { rate?: unknown };
    return field.startsWith(".rate") ? [[rate, field.slice(1), message] as const] : [];
  });
  expect(rates.length).toBeGreaterThan(8);
  for (const [rate, path, message] of rates) {
    expect(define({ concurrencyKey, rate })).toThrow(refusal(path, message));
  }
  const perKey = { rate: { limit: 1, perMs: 1 } };
  expect(define(perKey)).toThrow(refusal("rate", "needs concurrencyKey"));
});

it("a worker declares its limits before it claims, and again until the store has them", async () => {
  const { client, store, clock } = tasksWorld();
  const kept = store.limits;
  const calls: string[] = [];
  let isAway = true;
  const limits: TaskLimits = {
    ...kept,
    async declare(request) {
      calls.push(`declares the ${request.scope} ${request.name}`);
      if (isAway) throw new StoreUnavailableError("connection refused", { outcome: "none" });
      return kept.declare(request);
    },
  };
  const claim: TaskStore["claim"] = (request) => {
    calls.push("claims");
    return store.claim(request);
  };
  const tasks = client("me", { limits, claim });
  const report = defineTask("report", { limit: { running: 5 } });
  const queueLimits = { mails: { rate: { limit: 10, perMs: 1_000 } } };
  tasks.work([report.handle(() => null)], { queueLimits });
  await clock.advance(10_000);
  expect(calls.length).toBeGreaterThan(2);
  expect(new Set(calls)).toEqual(new Set(["declares the kind report"]));
  isAway = false;
  calls.length = 0;
  await clock.advance(10_000);
  expect(calls.slice(0, 3)).toEqual([
    "declares the kind report",
    "declares the queue mails",
    "claims",
  ]);
  expect(await tasks.limits.list()).toMatchObject([
    { scope: "kind", name: "report", running: 5, rate: null, declaredBy: "me" },
    { scope: "queue", name: "mails", running: null, rate: { limit: 10, perMs: 1_000 } },
  ]);
  await tasks.close();
});
