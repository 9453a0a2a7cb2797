import { expect, test } from "vitest";
import { type Failed, StoreUnavailableError } from "../core/index.js";
import { manualEnv } from "../testing/index.js";
import type { OperatorActors, RemoteOperator } from "./operations.js";
import { retryingOperator } from "./retrying.js";

const error = new StoreUnavailableError("it is down", { outcome: "unknown" });
const lost: Failed = { status: "failed", applied: "maybe", retryable: true, error };
const key = { namespace: "default", id: "x" };

/** How often each call of an actor whose answers are lost is made. */
async function triesOf(call: (actors: OperatorActors) => Promise<unknown>): Promise<number> {
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
    generator: { write: fail },
    pauses: { set: fail, clear: fail },
  };
  const operator: RemoteOperator = {
    pauses: { list: fail },
    audit: { list: fail, verify: fail },
    keys: { list: fail },
    perform: async (_, work) => (await work(actors)).value,
  };
  let done = false;
  const act = {} as Parameters<RemoteOperator["perform"]>[0];
  const acting = retryingOperator(operator, env)
    .perform(act, async (retried) => ({ value: await call(retried), details: {} }))
    .catch(() => {})
    .finally(() => {
      done = true;
    });
  for (let ms = 0; !done && ms < 20_000; ms += 10) await env.clock.advance(10);
  await acting;
  return tries;
}

test("neither a revoke nor an act on tasks is repeated when its answer is lost", async () => {
  const revoke = { namespace: "default", resource: "r", free: "now" } as const;
  expect(await triesOf(({ leases }) => leases.revoke([revoke]))).toBe(1);
  for (const operation of ["cancel", "retry", "delete"] as const) {
    expect(await triesOf(({ tasks }) => tasks[operation]([key]))).toBe(1);
  }
});

test("what says how things shall be is", async () => {
  const pause = { namespace: "default", kind: "queue", name: "q" } as const;
  const write = { running: true };
  expect(await triesOf(({ generator }) => generator.write("default", write))).toBeGreaterThan(2);
  expect(await triesOf(({ pauses }) => pauses.clear(pause))).toBeGreaterThan(2);
});
