/** The end of a run. Whole runs are tested by tests/e2e/conformance-cli.test.ts. */
import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import { type Plan, runPlan } from "./runner.js";

/** One test that passes, and a store that closes in this way. */
function run(close: () => Promise<void>) {
  const { clock } = manualEnv();
  const stop = new AbortController();
  let begin = () => {};
  const closing = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const plan: Plan = {
    properties: [{ section: "s", name: "n", body: async () => {}, timeoutMs: 1_000 }],
    before: [],
    after: [
      () => {
        begin();
        return close();
      },
    ],
  };
  const ended = runPlan(plan, { clock, signal: stop.signal, onBegin: () => {} });
  return { clock, stop, closing, ended };
}

const RESULTS = [{ section: "s", name: "n", verdict: "pass" }];
const never = () => new Promise<never>(() => {});

it("returns the results of a store whose close fails, or never settles", async () => {
  const failed = await run(() => Promise.reject(new Error("oops"))).ended;
  expect(failed).toMatchObject({
    results: RESULTS,
    closeFailure: { message: "the store was not closed: oops" },
  });
  const { clock, closing, ended } = run(never);
  await closing;
  await clock.advance(10_000);
  expect(await ended).toMatchObject({
    results: RESULTS,
    closeFailure: {
      message: "the store was not closed: its close has not settled after 10 seconds",
    },
  });
});

it("stops waiting for the close when it is interrupted", async () => {
  const { stop, closing, ended } = run(never);
  await closing;
  stop.abort();
  expect(await ended).toMatchObject({
    results: RESULTS,
    closeFailure: { message: "the store was not closed: interrupted" },
  });
});
