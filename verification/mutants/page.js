// survivors.md, made of the report.
import { table } from "../support/markdown.js";
import { PARTS } from "./parts.js";

/** @typedef {{ name: string, date: string, commit: string, node: string, machine: string, again?: { date: string, commit: string } } & import("./figures.js").Figures} Kept */

/**
 * @param {{ parts: Kept[] }} report
 * @returns the page, and for each part whether it reaches its target
 */
export function pageOf({ parts }) {
  const kept = new Map(parts.map((part) => [part.name, part]));
  const judged = PARTS.map(({ name, target }) => {
    const part = kept.get(name);
    const open = part?.survivors.filter(({ why }) => why === "").length ?? 0;
    const seen = part
      ? `${part.score} % of ${totalOf(part)} mutants (target: ${target} %), ${open} survivors not explained`
      : "not run";
    return { name, seen, holds: part !== undefined && part.score >= target };
  });
  const rows = PARTS.map(({ name, what, target }) => {
    const part = kept.get(name);
    if (!part) return [name, what, `${target} %`, "not run", "", "", "", "", "", ""];
    const { score, killed, timeouts, survived, noCoverage, ignored, date, commit, again } = part;
    return [
      name,
      what,
      `${target} %`,
      `**${score} %**`,
      killed,
      timeouts,
      survived,
      noCoverage,
      ignored,
      `${whenOf({ date, commit })}${again ? `; survivors again ${whenOf(again)}` : ""}`,
    ];
  });
  const text = `# Mutants

[Stryker](https://stryker-mutator.io) changes the code in small ways, one at a time: it negates a condition, removes a block, or
replaces \`<\` with \`<=\`. Each change is a mutant. A mutant that no test notices survives, and shows what the tests do not
check. This page lists every survivor. This command writes it:

\`\`\`
npm run verify -- mutants
\`\`\`

Only unit tests run here, without a server. The simulation, the conformance suites and the planted bugs check more:
[planted bugs](../planted-bugs/caught.md) shows which of them catches which mistake. A score is the share of mutants that a test
notices or that make it run without end. Not counted are the wording of errors and logs, and constants that a module evaluates
when it is loaded. Explanations are in [explanations.yml](explanations.yml).

${table(["part", "what", "target", "score", "killed", "without end", "survived", "run by no test", "not counted", "when"], rows)}

${PARTS.flatMap(({ name }) => sectionOf(kept.get(name))).join("\n\n")}
`;
  return { text, judged };
}

const whenOf = (/** @type {{ date: string, commit: string }} */ { date, commit }) =>
  `${date.slice(0, 10)}, \`${commit}\``;

const totalOf = (/** @type {Kept} */ { killed, timeouts, survived, noCoverage }) =>
  killed + timeouts + survived + noCoverage;

function sectionOf(/** @type {Kept | undefined} */ part) {
  if (!part) return [];
  const { name, survivors } = part;
  if (survivors.length === 0) return [`## ${name}\n\nNo mutant survives.`];
  const rows = survivors.map(({ file, line, mutator, original, replacement, covered, why }) => [
    `${file.replace(/^packages\/(leasehold(?:-server)?)\/src\//, (_, folder) => (folder === "leasehold" ? "" : "server: "))}:${line}`,
    mutator,
    `${code(original)} → ${code(replacement)}`,
    why || (covered ? "not explained" : "run by no unit test"),
  ]);
  return [`## ${name}`, table(["where", "mutator", "mutant", "why it survives"], rows)];
}

/** Code may contain backticks. */
const code = (/** @type {string} */ text) =>
  text === "" ? "nothing" : text.includes("`") ? `\`\` ${text} \`\`` : `\`${text}\``;
