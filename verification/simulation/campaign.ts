/** Many runs: which seeds break a property, what was hit on the way, and the story of a seed. */
import { SCENARIOS } from "./scenarios/index.js";
import { type Figures, type RunResult, run, type Scenario } from "./simulation.js";
import type { Violation } from "./world.js";

/** What a campaign has seen so far; sums of campaigns over other seeds can be added. */
export interface Report {
  seeds: number;
  events: number;
  /** How often each fault and rare branch happened. */
  readonly covered: Record<string, number>;
  readonly figures: Record<string, number>;
  readonly failures: Failure[];
}

export interface Failure {
  readonly seed: number;
  readonly scenario: string;
  readonly violation: Violation;
}

export function newReport(): Report {
  return { seeds: 0, events: 0, covered: {}, figures: {}, failures: [] };
}

export function addReport(sum: Report, more: Report): void {
  sum.seeds += more.seeds;
  sum.events += more.events;
  addCounts(sum.covered, more.covered);
  addCounts(sum.figures, more.figures);
  sum.failures.push(...more.failures);
}

function addCounts(sum: Record<string, number>, more: Figures): void {
  for (const [name, count] of Object.entries(more)) sum[name] = (sum[name] ?? 0) + count;
}

/** Those over HTTP take ten times as long, and run so much less often. */
const HTTP_EVERY = 100;

/** The scenario of a seed, unless one is asked for. */
export function scenarioOf(seed: number, name?: string): Scenario {
  const overHttp = seed % HTTP_EVERY === 0;
  const some = SCENARIOS.filter((scenario) =>
    name === undefined ? scenario.servers > 0 === overHttp : scenario.name === name,
  );
  const turn = overHttp ? seed / HTTP_EVERY : seed;
  const scenario = some[turn % some.length];
  if (!scenario) {
    const names = SCENARIOS.map(({ name }) => name).join(", ");
    throw new RangeError(`no scenario is named ${name}: choose one of ${names}`);
  }
  return scenario;
}

/** One in so many seeds runs twice, and must take the same course: by turns over HTTP and not. */
const REPEAT_EVERY = 150;

/**
 * Runs one seed, and adds what came of it.
 * @param settled a faster one than the default; those that run twice do so with either
 */
export async function runSeed(
  report: Report,
  seed: number,
  { name, settled }: { name?: string | undefined; settled?: () => Promise<void> } = {},
): Promise<void> {
  const scenario = scenarioOf(seed, name);
  const result = await run({ seed, scenario, ...(settled && { settled }) });
  const violation = result.world.violation ?? (await differs(result, seed, scenario));
  report.seeds += 1;
  report.events += result.world.events;
  addCounts(report.covered, Object.fromEntries(result.world.covered));
  addCounts(report.figures, result.figures);
  if (violation) report.failures.push({ seed, scenario: scenario.name, violation });
}

/** @returns a violation if the seed is one of those, and its second run takes another course */
export async function differs(
  { world }: RunResult,
  seed: number,
  scenario: Scenario,
): Promise<Violation | undefined> {
  if (seed % REPEAT_EVERY !== 0) return undefined;
  const again = await run({ seed, scenario });
  world.cover("seed repeated");
  if (again.world.trace.hash === world.trace.hash) return undefined;
  const what = `${world.trace.hash}, then ${again.world.trace.hash}`;
  return { property: "a seed repeats itself", what, atMs: world.nowMs };
}

/** The fewest faults after which the seed still breaks a property, and the story of that run. */
export async function shortest(
  seed: number,
  name?: string,
): Promise<{ readonly faults: number; readonly result: RunResult } | null> {
  const scenario = scenarioOf(seed, name);
  const fails = async (mostFaults: number) => {
    const result = await run({ seed, scenario, mostFaults, keepStory: true });
    return result.world.violation ? result : undefined;
  };
  const whole = await run({ seed, scenario, keepStory: true });
  if (!whole.world.violation) return null;
  // Fewer faults need not fail where more do: the bisection is a guess, the result is not.
  let best = { faults: whole.faults, result: whole };
  let least = 0;
  while (least < best.faults) {
    const faults = Math.floor((least + best.faults) / 2);
    const result = await fails(faults);
    if (result) best = { faults, result };
    else least = faults + 1;
  }
  return best;
}
