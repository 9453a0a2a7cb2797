import { expect, it } from "vitest";
import { recordedCalls, triesOf } from "../../../../../tests/support/faults/retried-store.js";
import type { Env } from "../../env/index.js";
import { SCHEDULE_RETRIES, withRetriesLater } from "../../lease/index.js";
import type { DeclareRequest, ScheduleStore } from "./port.js";

const KEY = { namespace: "n", name: "nightly" };
const DECLARED = { ...KEY, declaration: {} } as DeclareRequest;
const PAUSE = { ...KEY, by: "ada", reason: null };
const RUN = { ...KEY, taskId: "nightly@now" };

const retryingSchedules = (open: () => Promise<ScheduleStore>, env: Env): ScheduleStore =>
  withRetriesLater(open, SCHEDULE_RETRIES, env);
const tries = (call: (store: ScheduleStore) => Promise<unknown>) =>
  triesOf(retryingSchedules, ["declare", "runNow"], call);

it("asks again for reads, and for changes of which a repeated one changes nothing", async () => {
  expect(await tries((store) => store.get(KEY))).toBeGreaterThan(2);
  expect(await tries((store) => store.list({ namespace: "n" }))).toBeGreaterThan(2);
  expect(await tries((store) => store.declare(DECLARED))).toBeGreaterThan(2);
  expect(await tries((store) => store.pause(PAUSE))).toBeGreaterThan(2);
  expect(await tries((store) => store.resume(KEY))).toBeGreaterThan(2);
  expect(await tries((store) => store.runNow(RUN))).toBeGreaterThan(2);
});

it("asks once for a removal: a program may have declared the schedule again", async () => {
  expect(await tries((store) => store.remove(KEY))).toBe(1);
});

it("opens the store at the first call, and passes on what is asked and answered", async () => {
  const { store, asked, opened } = recordedCalls(retryingSchedules);
  expect(opened()).toBe(0);
  const options = { timeoutMs: 700 };
  const answers = [
    await store.declare(DECLARED, options),
    await store.get(KEY),
    await store.list({ namespace: "n" }),
    await store.pause(PAUSE),
    await store.resume(KEY),
    await store.remove(KEY),
    await store.runNow(RUN),
  ];
  expect(asked).toEqual([
    ["declare", DECLARED, options],
    ["get", KEY],
    ["list", { namespace: "n" }],
    ["pause", PAUSE],
    ["resume", KEY],
    ["remove", KEY],
    ["runNow", RUN, { timeoutMs: 5_000 }],
  ]);
  expect(answers).toEqual(asked.map(([status]) => ({ status })));
});
