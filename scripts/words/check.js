// Keeps retired words out of comments, strings, names and Markdown: the rules are in retired.yml.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { argumentsOf } from "../support/arguments.js";
import { findRetired, isIn, judge, parseRules } from "./words.js";

const HELP = `node scripts/words/check.js            check the whole repository
node scripts/words/check.js FILE ...   check only these files, and print all their findings
node scripts/words/check.js --count    count the findings of each folder`;

const root = fileURLToPath(new URL("../..", import.meta.url));
const rules = parseRules();
const { values, positionals } = argumentsOf(HELP, {
  options: { count: { type: "boolean" } },
  allowPositionals: true,
});

if (values.count) count(findIn(filesOfRepository(), root));
else if (positionals.length > 0) report(judge(findIn(positionals, process.cwd()), []));
else report(judge(findIn(filesOfRepository(), root), rules.notYet));

function filesOfRepository() {
  return execFileSync("git", ["ls-files", "-z", "-co", "--exclude-standard"], {
    cwd: root,
    encoding: "utf8",
  })
    .split("\0")
    .filter((path) => /\.(ts|tsx|js|md)$/.test(path) && !isIn(path, rules.skip))
    .filter((path) => existsSync(join(root, path)));
}

/** @param {string[]} paths @param {string} folder they are relative to it */
function findIn(paths, folder) {
  return paths.flatMap((path) =>
    findRetired(rules, path, readFileSync(resolve(folder, path), "utf8")),
  );
}

/** @param {string[]} lines */
function report(lines) {
  for (const line of lines) console.error(line);
  if (lines.length > 0) process.exitCode = 1;
}

/** @param {import("./words.js").Finding[]} findings */
function count(findings) {
  const counts = new Map();
  for (const { path } of findings) {
    const folder = rules.notYet.find((entry) => isIn(path, [entry])) ?? dirname(path);
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  }
  for (const [folder, found] of [...counts].sort())
    console.log(`${String(found).padStart(6)} ${folder}`);
  console.log(`${String(findings.length).padStart(6)} in all`);
}
