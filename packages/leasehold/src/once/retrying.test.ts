import { expect, it } from "vitest";
import { type Failed, StoreUnavailableError } from "../core/index.js";
import { manualEnv } from "../testing/index.js";
import type { OnceStore } from "./port.js";
import { retryingOnce } from "./retrying.js";

const error = new StoreUnavailableError("it is down", { outcome: "unknown" });
const lost: Failed = { status: "failed", applied: "maybe", retryable: true, error };
const KEY = { namespace: "n", key: "bill" };
const GRANT = { ...KEY, leaseId: "a".repeat(48), token: 7 };
const SUCCESS = { ...GRANT, value: 1, keepMs: null };
const FAILURE = { ...GRANT, error: "no", maxAttempts: null, retryDelayMs: 0 };

/** How often a call is sent whose answers are lost. */
async function triesOf(call: (store: OnceStore) => Promise<unknown>): Promise<number> {
  const env = manualEnv();
  let tries = 0;
  const fail = async (): Promise<never> => {
    tries += 1;
    throw error;
  };
  const lose = async () => {
    tries += 1;
    return lost;
  };
  const inner = { get: fail, list: fail, retry: fail, delete: fail, succeed: lose, fail: lose };
  const store = inner as unknown as OnceStore;
  let done = false;
  const calling = call(retryingOnce(store.leases, async () => store, env))
    .catch(() => {})
    .finally(() => (done = true));
  for (let ms = 0; !done && ms < 20_000; ms += 10) await env.clock.advance(10);
  await calling;
  return tries;
}

it("asks again for a read and for a record, of which a repeated one changes nothing", async () => {
  expect(await triesOf((store) => store.get(KEY))).toBeGreaterThan(2);
  expect(await triesOf((store) => store.list({ namespace: "n" }))).toBeGreaterThan(2);
  expect(await triesOf((store) => store.succeed(SUCCESS))).toBeGreaterThan(2);
  expect(await triesOf((store) => store.fail(FAILURE))).toBeGreaterThan(2);
});

it("asks once for a retry and for a deletion: the key may have been worked on in between", async () => {
  expect(await triesOf((store) => store.retry(KEY))).toBe(1);
  expect(await triesOf((store) => store.delete(KEY))).toBe(1);
});

it("opens the store at the first call, and passes on what is asked and answered", async () => {
  const asked: unknown[] = [];
  const note =
    <Answer>(answer: Answer) =>
    async (...args: unknown[]) => {
      asked.push(args);
      return answer;
    };
  const inner = {
    get: note(null),
    list: note("a page"),
    succeed: note({ status: "recorded" }),
    fail: note({ status: "refused" }),
    retry: note("retried"),
    delete: note("deleted"),
    collect: note(3),
  } as unknown as OnceStore;
  let opened = 0;
  const open = async () => {
    opened += 1;
    return inner;
  };
  const store = retryingOnce(inner.leases, open, manualEnv());
  expect(opened).toBe(0);
  expect(await store.get(KEY)).toBe(null);
  expect(await store.list({ namespace: "n" })).toBe("a page");
  const options = { timeoutMs: 700 };
  expect(await store.succeed(SUCCESS, options)).toEqual({ status: "recorded" });
  expect(await store.fail(FAILURE, options)).toEqual({ status: "refused" });
  expect(await store.retry(KEY)).toBe("retried");
  expect(await store.delete(KEY)).toBe("deleted");
  expect(await store.collect()).toBe(3);
  expect(asked).toEqual([
    [KEY],
    [{ namespace: "n" }],
    [SUCCESS, options],
    [FAILURE, options],
    [KEY],
    [KEY],
    [],
  ]);
  expect(opened).toBe(7);
});
