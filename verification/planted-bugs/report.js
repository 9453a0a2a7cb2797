/** The page with the table of bugs and what caught them, and how many of them `npm test` catches. */

/** Whether `npm test` runs the tests of a tier: tests/support/runner/tiers.ts. */
export const isInNpmTest = (/** @type {string} */ tier) => ["unit", "contract"].includes(tier);

/** The percentage of each group of areas that `npm test` should catch. */
const GOAL = 85;
/** Groups whose rules need no engine and no other process, with the sources of them that bugs of other areas change. */
const GROUPS = {
  rules: /\/src\/(lease\/(rules|queue)|stores\/memory\/(store|wait-queue))\./,
  waiting: /\/src\/lease\/(acquire|waiter)\./,
  holding: /\/src\/(lease|renewal-thread)\//,
  schedules: /\/src\/(tasks\/schedules\/|stores\/memory\/schedule)/,
  keys: /\/src\/(tasks\/keys\.|stores\/memory\/task-keys\.)/,
  tasks: /\/src\/(tasks\/|stores\/memory\/task)/,
  once: /\/src\/(once\/|stores\/memory\/once)/,
};
const groupOf = ({ area, file }) =>
  GROUPS[area] ? area : Object.keys(GROUPS).find((group) => GROUPS[group].test(file));

/** Of all bugs, of those of the groups together, and of each group: how many `npm test` catches, and whether that is enough. */
function caughtByNpmTest(bugs) {
  const among = (name, own) => {
    const caught = own.filter(({ tier }) => isInNpmTest(tier)).length;
    return { name, caught, of: own.length, percent: Math.floor((100 * caught) / own.length) };
  };
  const grouped = bugs.filter(groupOf);
  const goals = [
    among("the groups below", grouped),
    ...Object.keys(GROUPS).map((group) =>
      among(
        group,
        grouped.filter((bug) => groupOf(bug) === group),
      ),
    ),
  ].map((one) => ({ ...one, isShort: one.percent < GOAL }));
  return [{ ...among("all areas", bugs), isShort: false }, ...goals].filter(({ of }) => of > 0);
}

/** @returns a line for each */
export const shares = (bugs) =>
  caughtByNpmTest(bugs).map(
    ({ name, caught, of, percent, isShort }) =>
      `${name}: ${caught} of ${of}, ${percent} %${isShort ? `, **less than the goal of ${GOAL} %**` : ""}`,
  );

const cell = (text) => text.replaceAll("|", "\\|");
/** A problem may be the whole output of a program. */
const missed = (problem) => `**not caught**: ${problem.split("\n", 1)[0].slice(0, 200)}`;

/** Whether an area is that of an author who had seen no test. */
export const isOfStrangers = (/** @type {string} */ area) => area.startsWith("strangers");

/** The bugs of each of those authors, the last one's last. */
export function setsOfStrangers(bugs) {
  const areas = new Set(bugs.map(({ area }) => area).filter(isOfStrangers));
  return [...areas].sort().map((area) => bugs.filter((bug) => bug.area === area));
}

/** As verification/planted-bugs/caught.md has it. */
export function markdown({ date, commit, node, machine, controls, bugs }) {
  const killed = bugs.filter((bug) => bug.killedBy !== null);
  const passed = controls.filter(({ problem }) => problem === null).length;
  // Each one's own time, with what ran without it: a run that continues another one has not spent that of the first.
  const seconds = bugs.reduce((sum, one) => sum + one.seconds, 0);
  const tiers = [...new Set(killed.map(({ tier }) => tier))].map(
    (tier) => `${killed.filter((bug) => bug.tier === tier).length} ${tier}`,
  );
  const rows = bugs.map(({ name, area, what, tier, killedBy, problem, seconds }) => {
    const found = killedBy ?? missed(problem);
    return [area, `**${name}** ${what}`, tier ?? "", found, seconds.toFixed(0)].map(cell);
  });
  const strangers = setsOfStrangers(bugs).map(
    (set) => `${set.filter(({ firstMissed }) => !firstMissed).length} of ${set.length}`,
  );
  const missedFirst = bugs.filter(({ firstMissed }) => firstMissed);
  const caughtSince = missedFirst.filter(({ killedBy }) => killedBy !== null);
  return `# Planted bugs

Each row is a typical mistake, planted in a copy of the project, and the test that catches it. If nothing catches a bug, a test is
missing, and the command fails. This command writes the page:

\`\`\`sh
npm run verify -- planted-bugs --markdown verification/planted-bugs/caught.md
\`\`\`

\`npm run verify -- planted-bugs NAME\` repeats one bug of the list in \`verification/planted-bugs/bugs/\`. Each bug is first tried against
the tests of \`npm test\` that are near the changed source, and only if they miss it against the slower check that is named for it.
The tier is that of the test that caught the bug, or \`simulation\`. What caught a bug must pass without it.

**${killed.length} of ${bugs.length} bugs are caught**, by tier: ${tiers.join(", ")}. Without a bug, ${passed} of the ${controls.length} files and seeds that caught one passed.
The run was on ${date.slice(0, 10)} at commit \`${commit}\`, with Node ${node}, on ${machine}. All steps together took ${Math.round(seconds / 60)} minutes.

\`npm test\` catches, with a goal of ${GOAL} % in each group of areas that needs no engine:

${shares(bugs)
  .map((line) => `- ${line}`)
  .join("\n")}

A group has the bugs of its area, and those of other areas in the same folders.
${
  strangers.length > 0
    ? `
The authors of the areas "strangers" had seen no test, so each of their bugs may be caught by any test near the changed source. The
tests as they were caught ${strangers.join(", then ")}. Of the ${missedFirst.length} that they missed, ${caughtSince.length} are caught now.
`
    : ""
}
| area | bug | tier | test or seed that caught it | seconds |
|---|---|---|---|---:|
${rows.map((cells) => `| ${cells.join(" | ")} |`).join("\n")}
`;
}
