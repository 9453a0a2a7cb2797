/** The page with the table of bugs and the checks that caught them. */
const cell = (text) => text.replaceAll("|", "\\|");
/** A problem may be the whole output of a program. */
const missed = (problem) => `**not caught**: ${problem.split("\n", 1)[0].slice(0, 200)}`;
const CHECKS = {
  unit: "unit tests",
  simulation: "the simulation",
  conformance: "the conformance suites",
  integration: "integration tests",
  histories: "histories",
  near: "whatever is near",
};

/** Whether an area is that of an author who had seen no test. */
export const isOfStrangers = (/** @type {string} */ area) => area.startsWith("strangers");

/** The bugs of each of those authors, the last one's last. */
export function setsOfStrangers(bugs) {
  const areas = new Set(bugs.map(({ area }) => area).filter(isOfStrangers));
  return [...areas].sort().map((area) => bugs.filter((bug) => bug.area === area));
}

/** As docs/planted-bugs.md has it. */
export function markdown({ date, commit, node, machine, controls, bugs }) {
  const killed = bugs.filter((bug) => bug.killedBy !== null);
  const passed = controls.filter(({ problem }) => problem === null).length;
  // Each check's own time: a run that continues another one has not spent that of the first.
  const seconds = [...controls, ...bugs].reduce((sum, one) => sum + one.seconds, 0);
  const kinds = [...new Set(bugs.map(({ kind }) => kind))].map(
    (kind) => `${killed.filter((bug) => bug.kind === kind).length} by ${CHECKS[kind] ?? kind}`,
  );
  const rows = bugs.map(({ name, area, what, check, killedBy, problem, seconds }) => {
    const found = killedBy ?? missed(problem);
    return [area, `**${name}** ${what}`, check, found, seconds.toFixed(0)].map(cell);
  });
  const strangers = setsOfStrangers(bugs).map(
    (set) => `${set.filter(({ firstMissed }) => !firstMissed).length} of ${set.length}`,
  );
  const missedFirst = bugs.filter(({ firstMissed }) => firstMissed);
  const caughtSince = missedFirst.filter(({ killedBy }) => killedBy !== null);
  return `# Planted bugs

Each row is a typical mistake, planted in a copy of the project, and the check that catches it. If no check catches a bug, a check is
missing, and the command fails. This command writes the page:

\`\`\`sh
npm run planted-bugs -- --markdown docs/planted-bugs.md
\`\`\`

\`npm run planted-bugs -- NAME\` repeats one bug of the list in \`verification/planted-bugs/bugs/\`. Each check first runs without a
bug and must pass, because a check that always fails has caught nothing.

**${killed.length} of ${bugs.length} bugs are caught**: ${kinds.join(", ")}. Before that, ${passed} of ${controls.length} checks passed without a bug.
The run was on ${date.slice(0, 10)} at commit \`${commit}\`, with Node ${node}, on ${machine}. All checks together took ${Math.round(seconds / 60)} minutes.
${
  strangers.length > 0
    ? `
The authors of the areas "strangers" had seen no test, so each of their bugs may be caught by any test near the changed source. The
tests as they were caught ${strangers.join(", then ")}. Of the ${missedFirst.length} that they missed, ${caughtSince.length} are caught now.
`
    : ""
}
| area | bug | check | seed or test that caught it | seconds |
|---|---|---|---|---:|
${rows.map((cells) => `| ${cells.join(" | ")} |`).join("\n")}
`;
}
