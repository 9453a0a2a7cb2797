/**
 * What is lost when a second server takes over: `npm run verify -- chaos --scenario all` runs all of them, these
 * tests the shortest one.
 * @module-tag safety
 */
import { readFile } from "node:fs/promises";
import { afterAll, describe, expect, it } from "vitest";
import { describeRedis } from "../../tests/support/engines/redis-engine.js";
import { endAll } from "../../tests/support/processes/processes.js";
import { SCENARIOS } from "./scenarios/index.js";

const ONCE = "replica-promotion";

afterAll(() => endAll());

describe("each scenario", async () => {
  const text = await readFile(new URL("../../docs/guarantees.md", import.meta.url), "utf8");
  const guarantees = text.replace(/\s+/g, " ");

  it.each(SCENARIOS)("$name quotes what is promised, and is named there", ({ name, promised }) => {
    const wanted = [...promised, `\`${name}\``];
    expect(wanted.filter((words) => !guarantees.includes(words))).toEqual([]);
  });
});

describeRedis(ONCE, () => {
  it("shows what is promised", async () => {
    const scenario = SCENARIOS.find(({ name }) => name === ONCE)!;
    const { differs, seen } = await scenario.run(() => {});
    expect(differs, JSON.stringify(seen)).toEqual([]);
  });
});
