/** A share of what `npm run verify -- sim` does, and that it would notice. */
import { describe, expect, it } from "vitest";
import {
  addReport,
  EXPECTED_FIGURES,
  missing,
  newReport,
  run,
  runSeed,
  SCENARIOS,
  scenarioOf,
  shortest,
} from "./index.js";
import { settledByTicks } from "./settled.js";

const FIRST = 3_000_000;

describe.each(SCENARIOS)("$name", ({ name, servers, mostMachines = 0 }) => {
  it("keeps its promises under faults", { timeout: 120_000 }, async () => {
    const report = newReport();
    const seeds = servers > 0 ? 1 : mostMachines > 0 ? 3 : 30;
    for (let seed = FIRST; seed < FIRST + seeds; seed++) await runSeed(report, seed, { name });
    expect(report.failures).toEqual([]);
    expect(report.seeds).toBe(seeds);
    // Late writers were there, and without a fence would have written; few seeds may have none.
    if (seeds >= 30) expect(report.figures["unfenced"]).toBeGreaterThan(0);
  });

  it("takes the same course each time, also where events settle by ticks", async () => {
    const seed = FIRST + 7;
    const [first, again] = [
      await run({ seed, scenario: scenarioOf(seed, name) }),
      await run({
        seed,
        scenario: scenarioOf(seed, name),
        keepStory: true,
        settled: settledByTicks,
      }),
    ];
    expect(again.world.trace.hash).toBe(first.world.trace.hash);
    expect(again.world.trace.story()).toContain("everything heals");
    // Each of those over HTTP takes seconds.
    if (servers > 0) return;
    const other = await run({ seed: seed + 1, scenario: scenarioOf(seed, name) });
    expect(other.world.trace.hash).not.toBe(first.world.trace.hash);
  });
});

it("makes one task of each of ten thousand fire times", { timeout: 120_000 }, async () => {
  const report = newReport();
  for (let seed = FIRST; (report.figures["fireTimes"] ?? 0) < 10_000; seed += 1) {
    await runSeed(report, seed, { name: "schedules" });
    expect(report.failures).toEqual([]);
  }
});

it("says nothing of a seed that keeps its promises", async () => {
  expect(await shortest(FIRST, "singletons")).toBe(null);
});

it("adds reports, and names what never happened", () => {
  const [sum, more] = [newReport(), newReport()];
  more.seeds = 2;
  more.figures["unfenced"] = 3;
  addReport(sum, more);
  addReport(sum, more);
  expect(sum).toMatchObject({ seeds: 4, figures: { unfenced: 6 } });
  expect(missing(sum.figures, EXPECTED_FIGURES)).toEqual(["overlaps", "expiries"]);
});
