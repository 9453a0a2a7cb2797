import { expect, test } from "vitest";
import { type Failed, StoreUnavailableError } from "../lease/index.js";
import { manualEnv } from "../testing/index.js";
import type { OperatorActors, RemoteOperator } from "./operations.js";
import { retryingOperator } from "./operations.js";

const error = new StoreUnavailableError("it is down", { outcome: "unknown" });
const lost: Failed = { status: "failed", applied: "maybe", retryable: true, error };
const key = { namespace: "default", id: "x" };

/** How often each call is made whose answers are lost: of an actor, or of the operator itself. */
async function triesOf(
  call: (actors: OperatorActors, operator: RemoteOperator) => Promise<unknown>,
): Promise<number> {
  const env = manualEnv();
  let tries = 0;
  const lose = async (asked: readonly unknown[]) => {
    tries += 1;
    return asked.map(() => lost);
  };
  const fail = async (): Promise<never> => {
    tries += 1;
    throw error;
  };
  const actors: OperatorActors = {
    leases: { revoke: lose },
    tasks: { cancel: lose, retry: lose, delete: lose },
    once: { retry: fail, delete: fail },
    schedules: {
      pause: fail,
      resume: fail,
      remove: fail,
      async runNow() {
        tries += 1;
        return lost;
      },
    },
    taskLimits: {
      async declare() {
        tries += 1;
        return lost;
      },
      remove: fail,
    },
    backing: { kind: "server", read: fail, change: fail },
    pauses: { set: fail, clear: fail },
  };
  const operator: RemoteOperator = {
    pauses: { list: fail },
    audit: { list: fail, verify: fail },
    keys: { list: fail },
    limits: { read: fail },
    perform: async (_, work) => (await work(actors)).value,
  };
  let done = false;
  const act = {} as Parameters<RemoteOperator["perform"]>[0];
  const retrying = retryingOperator(operator, env);
  const acting = retrying
    .perform(act, async (retried) => ({ value: await call(retried, retrying), details: {} }))
    .catch(() => {})
    .finally(() => {
      done = true;
    });
  for (let ms = 0; !done && ms < 20_000; ms += 10) await env.clock.advance(10);
  await acting;
  return tries;
}

test("neither a revoke nor an act on tasks and records is repeated when its answer is lost", async () => {
  const revoke = { namespace: "default", resource: "r", free: "now" } as const;
  expect(await triesOf(({ leases }) => leases.revoke([revoke]))).toBe(1);
  for (const operation of ["cancel", "retry", "delete"] as const) {
    expect(await triesOf(({ tasks }) => tasks[operation]([key]))).toBe(1);
  }
  const onKey = { namespace: "default", key: "x" };
  expect(await triesOf(({ once }) => once.retry(onKey))).toBe(1);
  expect(await triesOf(({ once }) => once.delete(onKey))).toBe(1);
  const onSchedule = { namespace: "default", name: "x" };
  expect(await triesOf(({ schedules }) => schedules.remove(onSchedule))).toBe(1);
  const onLimit = { namespace: "default", scope: "kind", name: "x" } as const;
  expect(await triesOf(({ taskLimits }) => taskLimits.remove(onLimit))).toBe(1);
});

test("what says how things shall be is", async () => {
  const pause = { namespace: "default", kind: "queue", name: "q" } as const;
  const change = { method: "POST", path: "/api/x" } as const;
  const send = ({ backing }: OperatorActors) => {
    if (backing.kind !== "server") throw new Error("a server is behind it");
    return backing.change("default", change);
  };
  expect(await triesOf(send)).toBeGreaterThan(2);
  expect(await triesOf(({ pauses }) => pauses.clear(pause))).toBeGreaterThan(2);
  const set = { ...pause, actor: "a", reason: "r" };
  expect(await triesOf(({ pauses }) => pauses.set(set))).toBeGreaterThan(2);
  const onSchedule = { namespace: "default", name: "x" };
  const pauseOf = { ...onSchedule, by: "a", reason: null };
  expect(await triesOf(({ schedules }) => schedules.pause(pauseOf))).toBeGreaterThan(2);
  expect(await triesOf(({ schedules }) => schedules.resume(onSchedule))).toBeGreaterThan(2);
  const limit = { running: 1, rate: null };
  const declared = { namespace: "default", scope: "kind", name: "x", limit, by: "a" } as const;
  expect(await triesOf(({ taskLimits }) => taskLimits.declare(declared))).toBeGreaterThan(2);
});

test("a run is, as it concerns one task", async () => {
  const run = { namespace: "default", name: "x", taskId: "t" };
  expect(await triesOf(({ schedules }) => schedules.runNow(run))).toBeGreaterThan(2);
});

test("what an operator reads is read again", async () => {
  const reads: ((operator: RemoteOperator) => Promise<unknown>)[] = [
    ({ audit }) => audit.list({ namespace: null }),
    ({ audit }) => audit.verify({ seq: 0, hash: "" }),
    ({ keys }) => keys.list({ namespace: null }),
    ({ pauses }) => pauses.list(null),
    ({ limits }) => limits.read("default"),
  ];
  for (const read of reads) {
    expect(await triesOf((_, operator) => read(operator))).toBeGreaterThan(2);
  }
});

test("a call reaches the operator with what was asked, within its time", async () => {
  const asked: unknown[] = [];
  const note = async (...args: unknown[]): Promise<never> => {
    asked.push(args);
    return [{ status: "notHeld" }] as never;
  };
  const actors = {
    leases: { revoke: note },
    pauses: { set: note, clear: note },
    schedules: { pause: note, resume: note, runNow: note },
    taskLimits: { declare: note, remove: note },
  };
  const operator = {
    pauses: { list: note },
    audit: { list: note, verify: note },
    keys: { list: note },
    limits: { read: note },
    perform: async (_: unknown, work: (actors: unknown) => Promise<{ value: unknown }>) =>
      (await work(actors)).value,
  } as unknown as RemoteOperator;
  const retrying = retryingOperator(operator, manualEnv());
  const query = { namespace: "n" };
  const exported = { seq: 1, hash: "h" };
  await retrying.audit.list(query);
  await retrying.audit.verify(exported, "export");
  await retrying.keys.list(query);
  await retrying.pauses.list("n");
  await retrying.limits.read("n");
  const pause = { namespace: "n", kind: "queue", name: "q", actor: "a", reason: "r" } as const;
  const revoke = { namespace: "n", resource: "r", free: "now" } as const;
  const act = {} as Parameters<RemoteOperator["perform"]>[0];
  const onSchedule = { namespace: "n", name: "s" };
  const onLimit = { namespace: "n", scope: "kind", name: "k" } as const;
  const declared = { ...onLimit, limit: { running: 1, rate: null }, by: "a" };
  await retrying.perform(act, async ({ leases, pauses, schedules, taskLimits }) => {
    await pauses.set(pause);
    await pauses.clear(pause);
    await schedules.pause({ ...onSchedule, by: "a", reason: null });
    await schedules.resume(onSchedule);
    await schedules.runNow({ ...onSchedule, taskId: "t" });
    await taskLimits.declare(declared);
    await taskLimits.remove(onLimit);
    return { value: await leases.revoke([revoke], { timeoutMs: 700 }), details: {} };
  });
  expect(asked).toEqual([
    [query],
    [exported, "export"],
    [query],
    ["n"],
    ["n"],
    [pause],
    [pause],
    [{ ...onSchedule, by: "a", reason: null }],
    [onSchedule],
    [{ ...onSchedule, taskId: "t" }, { timeoutMs: 5_000 }],
    [declared, { timeoutMs: 5_000 }],
    [onLimit],
    [[revoke], { timeoutMs: 700 }],
  ]);
});
