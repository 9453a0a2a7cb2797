/** What a bug is tried against, and how each of it runs in a copy. */
import { testsNear } from "./near.js";
import { TIMEOUT_MS } from "./orphan.js";

/** After this many seeds without a failure, the simulation does not notice the bug. */
const MOST_SEEDS = 200;
/** Longer than a step takes on a busy machine: lease/ has nearly fifty files of tests. */
const NEAR_MS = 600_000;

/** A near test that hangs fails soon: whether it hangs or is slow, its second run finds out. */
const HUNG_FIRST_MS = 20_000;

/** "..." matches any text. */
const patternOf = (name) => name.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&").replace("\\.\\.\\.", ".*");

/** @param name of tests of the file, or a part of their names; default: all */
export const tested = (path, name) => ({ path, pattern: name && patternOf(name) });

/** @param from a seed shortly before the first one that shows the bug */
export const simulated = (scenario, from = 1) => ({ scenario, from });

/**
 * The steps of a bug. `npm test` comes first: the file of its check if it is in these tiers, then what is near the sources.
 * Its own check follows as a whole. A bug without a check may be caught by any test near the sources, and by the simulation.
 */
export function stepsOf({ sources, check = {} }) {
  const { path, pattern, scenario = "all", from = 1 } = check;
  const near = testsNear(sources);
  const own = (inNpmTest) => (path ? [{ paths: [path], pattern, inNpmTest }] : []);
  const nearby = (inNpmTest) => near.map((paths) => ({ paths, inNpmTest, isNear: true }));
  const hasOwn = path !== undefined || check.scenario !== undefined;
  return [
    ...own(true),
    ...nearby(true),
    ...own(false),
    ...(hasOwn ? [] : nearby(false)),
    ...(path ? [] : [{ scenario, from }]),
  ];
}

/**
 * Runs a step without or with a bug.
 * @returns what failed first: its tier, its `control`, which is a step that must pass without a bug, and its `name`; or null
 */
export const runStep = (copy, step) => (step.scenario ? simulate(copy, step) : test(copy, step));

async function simulate(copy, { scenario, from, seeds = MOST_SEEDS }) {
  const args = ["verification/planted-bugs/simulate.js", scenario, from, seeds];
  const { status, stdout, stderr } = await copy.run(args);
  if (status === null) throw new Error("the simulation came to no end");
  if (!stdout.startsWith("{")) throw new Error(`${scenario}: ${stderr || stdout}`);
  const { of, failures } = JSON.parse(stdout);
  const [first] = failures;
  if (!first) return null;
  return {
    tier: "simulation",
    killedBy: `\`npm run verify -- sim --scenario ${scenario}\`: seed ${first.seed}: ${first.violation.property} (${failures.length} of ${of} seeds)`,
    control: { scenario, from: first.seed, seeds: 10 },
    name: `\`npm run verify -- sim --scenario ${scenario} --from ${first.seed}\``,
  };
}

/** A test near a source must fail again when its file runs alone: on a busy machine, one may fail for want of time. */
async function test(copy, { paths, pattern, inNpmTest, isNear }) {
  const timeoutMs = isNear ? NEAR_MS : TIMEOUT_MS;
  for (let rest = paths; rest.length > 0; ) {
    const hung = isNear && inNpmTest && { hungAfterMs: HUNG_FIRST_MS };
    const first = await copy.test(rest, { pattern, inNpmTest, timeoutMs, ...hung });
    if (first.failed === null) return null;
    const { file } = first;
    const again = isNear ? await copy.test([file], { inNpmTest, timeoutMs }) : first;
    if (again.failed !== null) {
      return {
        tier: again.tier,
        killedBy: `\`${file}\`: ${again.failed}`,
        control: { paths: [file], inNpmTest, isNear: true },
        name: `\`${file}\` (${again.tier})`,
      };
    }
    rest = rest.filter((path) => path !== file && !first.passedFiles.includes(path));
  }
  return null;
}
