/** What a check says without a bug, and with one. */

/** Of a check that has run. */
export const UNNOTICED = "nothing noticed";

/** Without a bug; what fails then would catch anything. */
export async function control(copy, checks) {
  const beganMs = performance.now();
  const [first] = checks;
  const problem = await first.control(copy, checks).catch((error) => error.message);
  return { check: first.what, problem, seconds: secondsSince(beganMs) };
}

/**
 * @param controls of the checks: where one has failed its bugs are not planted, and nothing has caught them
 * @returns for the report; `problem` says why `killedBy` is null
 */
export async function plant(copy, bug, controls) {
  const { name, area, file, what, firstMissed, check } = bug;
  const shown = { name, area, file, what, firstMissed, kind: check.kind, check: check.what };
  const failed = controls.find((one) => one.check === check.what && one.problem !== null);
  if (failed) {
    const problem = `not planted, the check fails without it: ${failed.problem}`;
    return { ...shown, killedBy: null, problem, seconds: 0 };
  }
  const beganMs = performance.now();
  let [killedBy, problem] = [null, UNNOTICED];
  try {
    killedBy = await copy.with(bug, () => check.run(copy));
  } catch (error) {
    problem = error.message;
  }
  return {
    ...shown,
    killedBy,
    problem: killedBy ? null : problem,
    seconds: secondsSince(beganMs),
  };
}

const secondsSince = (ms) => (performance.now() - ms) / 1_000;
