/** The table of what caught which bug. */
const cell = (text) => text.replaceAll("|", "\\|");
/** A problem may be the whole output of a program. */
const nothing = (problem) => `**nothing**: ${problem.split("\n", 1)[0].slice(0, 200)}`;

/** As docs/planted-bugs.md has it. */
export function markdown({ date, commit, node, machine, controls, bugs, seconds }) {
  const killed = bugs.filter((bug) => bug.killedBy !== null);
  const passed = controls.filter(({ problem }) => problem === null).length;
  const kinds = [...new Set(bugs.map(({ kind }) => kind))].map(
    (kind) => `${killed.filter((bug) => bug.kind === kind).length} by ${kind}`,
  );
  const rows = bugs.map(({ name, area, what, check, killedBy, problem, seconds }) => {
    const found = killedBy ?? nothing(problem);
    return [area, `**${name}** ${what}`, check, found, seconds.toFixed(0)].map(cell);
  });
  return `# Planted bugs

Mistakes that people make in code like this, planted one at a time in a copy of the project, and the check that
catches each. A bug that nothing catches is a check that is missing, and makes the command fail. Made by

\`\`\`
npm run planted-bugs -- --markdown docs/planted-bugs.md
\`\`\`

The list is in \`verification/planted-bugs/bugs/\`; \`npm run planted-bugs -- NAME\` repeats one. Before any bug is planted each
check must pass without one: what fails anyway has caught nothing.

**${killed.length} of ${bugs.length} are caught**: ${kinds.join(", ")}. ${passed} of ${controls.length} checks passed without a bug before that.
${date.slice(0, 10)}, commit \`${commit}\`, Node ${node}, ${machine}, ${Math.round(seconds / 60)} minutes.

| area | bug | check | seed or test that caught it | s |
|---|---|---|---|---:|
${rows.map((cells) => `| ${cells.join(" | ")} |`).join("\n")}
`;
}
