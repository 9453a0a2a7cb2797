/** Plants a bug, and what catches it must pass without the bug. */
import { runStep, stepsOf } from "./checks.js";

/** Of a bug with which every step has passed. */
export const UNNOTICED = "nothing noticed";

/** Runs without a bug what has caught one, each once: what fails then would catch anything. */
export class Controls {
  #running = new Map();
  #tried;

  /**
   * @param passed those of a run that this one continues
   * @param tried is called with each that has run, for the report
   */
  constructor(passed = [], tried = () => {}) {
    for (const one of passed) this.#running.set(one.check, Promise.resolve(one));
    this.#tried = tried;
  }

  /** @returns what failed without a bug, or null */
  async problemOf(copy, { name, control }) {
    if (!this.#running.has(name)) this.#running.set(name, this.#run(copy, name, control));
    const { problem } = await this.#running.get(name);
    return problem;
  }

  async #run(copy, check, step) {
    let problem;
    try {
      problem = (await runStep(copy, step))?.killedBy ?? null;
    } catch (error) {
      problem = error.message;
    }
    const tried = { check, problem };
    this.#tried(tried);
    return tried;
  }
}

/** @returns for the report; `problem` says why `killedBy` is null */
export async function plant(copy, bug, controls) {
  const { name, area, file, what, firstMissed } = bug;
  const beganMs = performance.now();
  let caught = null;
  let problem = UNNOTICED;
  for (const step of stepsOf(bug)) {
    try {
      caught = await tryStep(copy, bug, step, controls);
    } catch (error) {
      problem = error.message;
    }
    if (caught) break;
  }
  const { tier = null, killedBy = null } = caught ?? {};
  const seconds = (performance.now() - beganMs) / 1_000;
  const shown = { name, area, file, what, firstMissed, tier, killedBy };
  return { ...shown, problem: caught ? null : problem, seconds };
}

/** A file that fails without the bug, too, is left out. Rejects if nothing else caught the bug. */
async function tryStep(copy, bug, step, controls) {
  let broken = null;
  for (let rest = step; ; ) {
    const failed = await copy.with(bug, () => runStep(copy, rest));
    if (failed === null) break;
    const problem = await controls.problemOf(copy, failed);
    if (problem === null) return failed;
    broken = `${failed.name} fails without the bug, too: ${problem}`;
    const others = rest.paths?.filter((path) => !failed.control.paths.includes(path)) ?? [];
    if (others.length === 0) break;
    rest = { ...rest, paths: others };
  }
  if (broken) throw new Error(broken);
  return null;
}
