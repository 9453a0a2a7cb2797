// Generates the reference in docs/cli.md from the commands. With --check it changes nothing, and fails if
// the reference is out of date.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { commandTree } from "../packages/leasehold-server/dist/cli/command-tree.js";
import { loadProgram } from "../packages/leasehold-server/dist/cli/program.js";

const FILE = fileURLToPath(new URL("../docs/cli.md", import.meta.url));
const BEGIN = "<!-- Made by scripts/cli-reference.js: from here -->\n";
const END = "<!-- to here -->\n";

const { program } = await loadProgram();
const tree = commandTree(program).filter(({ path, isAlias }) => path !== "" && !isAlias);
const reference = tree.map(sectionOf).join("\n");
const before = readFileSync(FILE, "utf8");
const [head, rest] = before.split(BEGIN);
const [, tail] = rest?.split(END) ?? [];
if (tail === undefined) throw new Error("docs/cli.md has lost its marks");
const after = `${head}${BEGIN}\n${reference}\n${END}${tail}`;
if (!process.argv.includes("--check")) writeFileSync(FILE, after);
else if (after !== before) {
  console.error("docs/cli.md is not current: node scripts/cli-reference.js");
  process.exitCode = 1;
}

/** @param {import("../packages/leasehold-server/dist/cli/command-tree.js").CommandEntry} entry */
function sectionOf({ path, usage, description, options }) {
  const own = options.filter(({ long }) => long !== "--help" && long !== "--verbose");
  const lines = [
    `### leasehold ${path}`,
    "",
    `\`leasehold ${path} ${usage}\`: ${description}.`,
    "",
  ];
  if (own.length > 0) {
    lines.push("| option | description | default |", "|---|---|---|");
    for (const { flags, description: what, choices, env, defaultText } of own) {
      const oneOf = choices.length > 0 ? ` (${choices.join(", ")})` : "";
      const variable = env === null ? "" : ` (\`${env}\`)`;
      lines.push(
        `| \`${flags}\` | ${cell(what)}${oneOf}${variable} | ${cell(defaultText ?? "")} |`,
      );
    }
    lines.push("");
  }
  return lines.join("\n");
}

/** @param {string} text */
function cell(text) {
  return text.replaceAll("|", "\\|").replaceAll("<", "&lt;");
}
