import { expect, test } from "vitest";
import {
  BACKING_RETRIES,
  type Failed,
  Retrying,
  StoreUnavailableError,
  TASK_RETRIES,
  withRetries,
} from "../lease/index.js";
import { manualEnv } from "../testing/index.js";
import type { TaskStore } from "./port.js";

const error = new StoreUnavailableError("it is down", { outcome: "unknown" });
const lost: Failed = { status: "failed", applied: "maybe", retryable: true, error };

/** A task store that loses each answer. */
function opened() {
  const env = manualEnv();
  const { clock } = env;
  const calls: string[] = [];
  const budgets: (number | undefined)[] = [];
  const store = new Proxy({} as TaskStore, {
    get:
      (_, name) =>
      async (asked: unknown, { timeoutMs }: { timeoutMs?: number } = {}) => {
        calls.push(String(name));
        budgets.push(timeoutMs);
        if (["get", "list", "counts", "leases", "reap"].includes(String(name))) throw error;
        return Array.isArray(asked) ? asked.map(() => lost) : lost;
      },
  });
  const ended = async (call: Promise<unknown>) => {
    let done = false;
    const settled = () => {
      done = true;
    };
    call.then(settled, settled);
    for (let ms = 0; !done && ms < 60_000; ms += 10) await clock.advance(10);
    return call;
  };
  return {
    tasks: withRetries(store, TASK_RETRIES, new Retrying(env)),
    env,
    clock,
    calls,
    budgets,
    ended,
  };
}

test.each(["enqueue", "heartbeat", "complete", "fail", "requeue"] as const)(
  "%s is repeated when its answer is lost",
  async (name) => {
    const { tasks, calls, ended } = opened();
    const send = tasks[name] as (requests: readonly object[]) => Promise<unknown>;
    expect(await ended(send([{}]))).toEqual([lost]);
    expect(calls.length).toBeGreaterThan(2);
  },
);

test.each(["cancel", "retry"] as const)("%s is not: the task may have changed", async (name) => {
  const { tasks, calls, ended } = opened();
  expect(await ended(tasks[name]([{ namespace: "default", id: "x" }]))).toEqual([lost]);
  expect(calls).toEqual([name]);
});

test("a claim is repeated as long as it may wait in the store, and 5 s more", async () => {
  const { tasks, clock, calls, budgets, ended } = opened();
  const startMs = clock.monotonic();
  const request = {
    namespace: "default",
    claimId: "c",
    holder: "h",
    queues: ["default"],
    kinds: null,
    limit: 1,
    ttlMs: 1_000,
    waitMs: 3_000,
  };
  expect(await ended(tasks.claim(request))).toEqual(lost);
  expect(calls.length).toBeGreaterThan(2);
  expect(budgets[0]).toBe(8_000);
  expect(clock.monotonic() - startMs).toBeGreaterThan(7_000);
});

test("a read is retried, and throws in the end", async () => {
  const { tasks, calls, ended } = opened();
  const failure = { code: "STORE_UNAVAILABLE", outcome: "none" };
  await expect(ended(tasks.counts("default"))).rejects.toMatchObject(failure);
  expect(calls.length).toBeGreaterThan(2);
});

test("a change behind a server is sent again", async () => {
  const { env, ended } = opened();
  const answer = { running: true };
  let sent = 0;
  const send = async (..._: unknown[]) => {
    sent += 1;
    if (sent < 3) throw error;
    return answer;
  };
  const plain = { kind: "server", read: send, change: send };
  const backing = withRetries(plain, BACKING_RETRIES, new Retrying(env));
  expect(backing.kind).toBe("server");
  expect(await ended(backing.change("default", { method: "POST", path: "/x" }))).toBe(answer);
  expect(sent).toBe(3);
});
