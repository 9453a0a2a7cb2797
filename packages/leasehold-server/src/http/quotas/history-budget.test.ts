import { manualEnv } from "leasehold/testing";
import { expect, it } from "vitest";
import { HistoryBudget } from "./history-budget.js";

function open() {
  const lines: object[] = [];
  const log = (fields: object) => void lines.push(fields);
  const env = manualEnv({ logger: { debug: log, info: log, warn: log, error: log } });
  const budget = new HistoryBudget(env);
  const taken = (namespace: string, times: number) =>
    Array.from({ length: times }, () => budget.take(namespace)).filter(Boolean).length;
  return { clock: env.clock, lines, budget, taken };
}

it("takes as many grants of a tenant as its limit says, and as many again each hour", async () => {
  const { clock, budget, taken } = open();
  budget.limit("n", 100);
  expect([taken("n", 150), taken("other", 150)]).toEqual([100, 150]);
  await clock.advance(360_000);
  expect(taken("n", 150)).toBe(10);
  await clock.advance(36_000_000);
  budget.limit("n", 100);
  expect(taken("n", 150)).toBe(100);
});

it("logs once a minute how many it left out", async () => {
  const { clock, lines, budget, taken } = open();
  budget.limit("n", 100);
  taken("n", 150);
  expect(lines).toEqual([]);
  await clock.advance(60_000);
  expect(lines).toEqual([{ event: "history_left_out", leftOut: 50 }]);
  await clock.advance(600_000);
  taken("n", 150);
  await clock.advance(60_000);
  const fields = { event: "history_left_out", leftOut: 150 - 18 };
  expect(lines.slice(1)).toEqual([fields]);
});

it("follows a changed limit", async () => {
  const { budget, taken } = open();
  budget.limit("n", 100);
  expect(taken("n", 30)).toBe(30);
  budget.limit("n", 50);
  expect(taken("n", 60)).toBe(50);
  // A raised limit fills up with time only, so that changes of it add no grants.
  budget.limit("n", 1_000);
  expect(taken("n", 60)).toBe(0);
  budget.limit("n", null);
  expect(taken("n", 2_000)).toBe(2_000);
});
