import { expect, it } from "vitest";
import { recordedCalls, triesOf } from "../../../../tests/support/faults/retried-store.js";
import type { Env } from "../env/index.js";
import { type LeaseStore, ONCE_RETRIES, withRetriesLater } from "../lease/index.js";
import type { OnceStore } from "./port.js";

const KEY = { namespace: "n", key: "bill" };
const GRANT = { ...KEY, leaseId: "a".repeat(48), token: 7 };
const SUCCESS = { ...GRANT, value: 1, keepMs: null };
const FAILURE = { ...GRANT, error: "no", maxAttempts: null, retryDelayMs: 0 };

const retried = (open: () => Promise<OnceStore>, env: Env): OnceStore => ({
  leases: {} as LeaseStore,
  ...withRetriesLater(open, ONCE_RETRIES, env),
});
const tries = (call: (store: OnceStore) => Promise<unknown>) =>
  triesOf(retried, ["succeed", "fail"], call);

it("asks again for a read and for a record, of which a repeated one changes nothing", async () => {
  expect(await tries((store) => store.get(KEY))).toBeGreaterThan(2);
  expect(await tries((store) => store.list({ namespace: "n" }))).toBeGreaterThan(2);
  expect(await tries((store) => store.succeed(SUCCESS))).toBeGreaterThan(2);
  expect(await tries((store) => store.fail(FAILURE))).toBeGreaterThan(2);
});

it("asks once for a retry and for a deletion: the key may have been worked on in between", async () => {
  expect(await tries((store) => store.retry(KEY))).toBe(1);
  expect(await tries((store) => store.delete(KEY))).toBe(1);
});

it("opens the store at the first call, and passes on what is asked and answered", async () => {
  const { store, asked, opened } = recordedCalls(retried);
  expect(opened()).toBe(0);
  const options = { timeoutMs: 700 };
  const answers = [
    await store.get(KEY),
    await store.list({ namespace: "n" }),
    await store.succeed(SUCCESS, options),
    await store.fail(FAILURE, options),
    await store.retry(KEY),
    await store.delete(KEY),
    await store.collect(),
  ];
  expect(asked).toEqual([
    ["get", KEY],
    ["list", { namespace: "n" }],
    ["succeed", SUCCESS, options],
    ["fail", FAILURE, options],
    ["retry", KEY],
    ["delete", KEY],
    ["collect"],
  ]);
  expect(answers).toEqual(asked.map(([status]) => ({ status })));
  expect(opened()).toBe(7);
});
