/**
 * What can catch a bug. Each kind says what it is, and runs in a copy:
 *
 *   run(copy)              which test or seed noticed something, or null; rejects if it could not run
 *   control(copy, checks)  the same without a bug, for all checks of one `what`
 *   passed()               its control has passed already; only where others may do without what it ran
 */

import { testsNear } from "./near.js";

/** So many seeds, and then it is said that nothing notices. */
const MOST_SEEDS = 200;

async function simulate(copy, scenario, from, seeds) {
  const args = ["verification/planted-bugs/simulate.js", scenario, from, seeds];
  const { status, stdout, stderr } = await copy.run(args);
  if (status === null) throw new Error("it came to no end");
  if (!stdout.startsWith("{")) throw new Error(`${scenario}: ${stderr || stdout}`);
  const { of, failures } = JSON.parse(stdout);
  const [first] = failures;
  if (!first) return null;
  return `seed ${first.seed}: ${first.violation.property} (${failures.length} of ${of} seeds)`;
}

/** @param from a seed near the first one that shows it; from there on others are tried */
export const simulated = (scenario, from = 1) => ({
  kind: "simulation",
  what: `\`npm run sim -- --scenario ${scenario}\``,
  from,
  run: (copy) => simulate(copy, scenario, from, MOST_SEEDS),
  /** The seeds that such checks begin with. */
  async control(copy, checks) {
    for (const from of new Set(checks.map((check) => check.from))) {
      const failed = await simulate(copy, scenario, from, 10);
      if (failed !== null) return failed;
    }
    return null;
  },
});

/** "..." matches any text. */
const patternOf = (name) => name.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&").replace("\\.\\.\\.", ".*");

/** @param name of tests of the file, or a part of their names; default: all */
const tests = (kind) => (path, name) => ({
  kind,
  what: `\`${path}\``,
  name,
  run: async (copy) => {
    const { failed } = await copy.test(path, name && patternOf(name));
    return failed;
  },
  /** Of this file: all that is meant by checks like this one, together. */
  async control(copy, checks) {
    const names = checks.map((check) => check.name);
    const patterns = names.map((wanted) => patternOf(wanted ?? ""));
    const { failed, passed } = await copy.test(path, patterns.join("|"));
    if (failed !== null) return failed;
    const gone = patterns.findIndex((pattern) => !passed.some((one) => RegExp(pattern).test(one)));
    return gone < 0 ? null : `no test ran that is named ${names[gone] ?? path}`;
  },
});
/** A test of one part by itself. */
export const unit = tests("unit");
/** The suite that holds every store to the same rules, on a real engine. */
export const conformance = tests("conformance");
/** Histories of clients on a real engine behind a proxy that fails, which the checker must explain. */
export const inHistories = tests("histories");
/** A test on real engines, processes or sockets. */
export const integration = tests("integration");

/** Longer than any of the steps takes on a busy machine: the core has nearly fifty files of tests. */
const NEAR_MS = 600_000;
/** Files of tests, and seeds, that have passed without a bug. Many sources have the same ones near. */
const passedAlone = new Set();

/** The first test that fails again when its file runs alone: on a busy machine, one may fail for want of time. */
async function failsAgain(copy, paths, passed = () => {}) {
  for (let rest = paths; ; ) {
    const { file, passedFiles } = await copy.test(rest, undefined, NEAR_MS);
    for (const path of passedFiles) passed(path);
    if (file === null) return null;
    const { failed } = await copy.test(file, undefined, NEAR_MS);
    if (failed !== null) return `${file}: ${failed}`;
    passed(file);
    rest = rest.filter((path) => path !== file && !passedFiles.includes(path));
  }
}

/** Whatever is near these sources, in steps until one fails: near.js says which. Then seeds of the simulation. */
export const anyNear = (sources) => ({
  kind: "near",
  what: `tests near ${sources.map((source) => `\`${source}\``).join(", ")}`,
  async run(copy) {
    for (const paths of testsNear(sources)) {
      const failed = await failsAgain(copy, paths);
      if (failed !== null) return failed;
    }
    return simulate(copy, "all", 1, MOST_SEEDS);
  },
  /** In a run before this one, which is resumed. */
  passed() {
    for (const path of testsNear(sources).flat()) passedAlone.add(path);
    passedAlone.add("seeds");
  },
  async control(copy) {
    for (const paths of testsNear(sources)) {
      const fresh = paths.filter((path) => !passedAlone.has(path));
      const failed = await failsAgain(copy, fresh, (path) => passedAlone.add(path));
      if (failed !== null) return failed;
    }
    const seeds = passedAlone.has("seeds") ? null : await simulate(copy, "all", 1, MOST_SEEDS);
    if (seeds === null) passedAlone.add("seeds");
    return seeds;
  },
});
