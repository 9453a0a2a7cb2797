import { expect, it } from "vitest";
import { recordedCalls, triesOf } from "../../../../../tests/support/faults/retried-store.js";
import type { KindStore } from "./port.js";
import { retryingKinds } from "./retrying.js";

const KEY = { namespace: "n", kind: "invoice", version: 1 };
const PUBLISHED = { ...KEY, schema: "{}", by: "ada" };

const tries = (call: (store: KindStore) => Promise<unknown>) =>
  triesOf(retryingKinds, ["publish"], call);

it("asks again for reads and publications", async () => {
  expect(await tries((store) => store.schemas([KEY]))).toBeGreaterThan(2);
  expect(await tries((store) => store.list({ namespace: "n" }))).toBeGreaterThan(2);
  expect(await tries((store) => store.publish(PUBLISHED))).toBeGreaterThan(2);
});

it("asks once for a withdrawal: a program may have published the version again", async () => {
  expect(await tries((store) => store.withdraw(KEY))).toBe(1);
});

it("opens the store at the first call, and passes on what is asked and answered", async () => {
  const { store, asked, opened } = recordedCalls(retryingKinds);
  expect(opened()).toBe(0);
  const options = { timeoutMs: 700 };
  const answers = [
    await store.publish(PUBLISHED, options),
    await store.schemas([KEY], options),
    await store.list({ namespace: "n" }),
    await store.withdraw(KEY),
  ];
  expect(asked).toEqual([
    ["publish", PUBLISHED, options],
    ["schemas", [KEY], options],
    ["list", { namespace: "n" }],
    ["withdraw", KEY],
  ]);
  expect(answers).toEqual(asked.map(([status]) => ({ status })));
});
