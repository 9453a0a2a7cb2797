// Measures how fast Leasehold is, always beside a contender in the same run. Prints a table per question.
//
//   npm run bench                              everything
//   npm run bench -- --quick                   in a few minutes, at sizes of at most 100,000
//   npm run bench -- --only tasks,handover     questions by the names of their files
//   npm run bench -- --json FILE               also writes the figures, for `node bench/page/write.js --from FILE`
//
// Ends by saying which gates are reached: the ratios that a release must have. Exits with 1 if a question
// fails. A ratio that misses its target is printed in red and is no error.
import { fork } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import Table from "cli-table3";
import pc from "picocolors";
import { writeReport } from "../verification/support/provenance.js";
import { gatesText, isReached, ratioText, reachText, sideText, spreadText } from "./rows.js";

const here = fileURLToPath(new URL(".", import.meta.url));
const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    only: { type: "string" },
    json: { type: "string" },
    help: { type: "boolean", short: "h", default: false },
  },
});
const files = readdirSync(`${here}questions`).filter((file) => file.endsWith(".js"));
const names = files.map((file) => basename(file, ".js"));
if (values.help) {
  console.log(`npm run bench -- [--quick] [--only NAME,...] [--json FILE]\n\n${names.join("\n")}`);
  process.exit(0);
}
if (!existsSync(`${here}node_modules`)) {
  console.error("What it is compared with is not installed: npm install --prefix bench");
  process.exit(64);
}
const only = values.only?.split(",") ?? names;
const unknown = only.filter((name) => !names.includes(name));
if (unknown.length > 0) {
  console.error(`--only ${unknown.join(",")}: there are ${names.join(", ")}`);
  process.exit(64);
}

/** @typedef {import("./rows.js").Row & { question: string }} Answer */
/** @type {Answer[]} */
const rows = [];
const unanswered = [];
const begin = performance.now();
const load = [loadavg()[0]];
const [cpu] = cpus();
console.log(
  `${cpus().length} x ${cpu?.model}, Node ${process.version}${values.quick ? ", quick" : ""}`,
);
let stopping = false;
// The process that answers receives Ctrl-C too, and ends its engines.
process.once("SIGINT", () => {
  stopping = true;
});
for (const [at, name] of only.entries()) {
  const progress = (/** @type {string} */ text) => {
    if (process.stderr.isTTY)
      process.stderr.write(`\r\x1b[K${at + 1}/${only.length} ${name}: ${text}`);
  };
  const startedMs = performance.now();
  const answers = await answersOf(name, progress);
  if (stopping) process.exit(130);
  progress("");
  if (answers === null) {
    unanswered.push(name);
    continue;
  }
  print(answers, performance.now() - startedMs);
  rows.push(...answers);
}
load.push(loadavg()[0]);
const minutes = (performance.now() - begin) / 60_000;
const { quick } = values;
writeReport(values.json, "bench", { quick, minutes, load, unanswered, rows });
const bounded = rows.filter(({ reach }) => reach !== null);
const within = bounded.filter(isReached).length;
console.log(`\n${within} of ${bounded.length} within reach, in ${minutes.toFixed(1)} minutes`);
if (unanswered.length > 0) console.log(`not answered: ${unanswered.join(", ")}`);
console.log(gatesText(rows));
process.exitCode = unanswered.length > 0 ? 1 : 0;

/**
 * @param {string} name
 * @param {(text: string) => void} progress
 * @returns {Promise<Answer[] | null>} null if the question failed, whose process has printed why
 */
function answersOf(name, progress) {
  const child = fork(`${here}answer.js`, [name, values.quick ? "quick" : "full"]);
  /** @type {Answer[] | null} */
  let answers = null;
  child.on("message", (/** @type {{ progress?: string, rows?: Answer[] }} */ message) => {
    if (message.progress !== undefined) progress(message.progress);
    if (message.rows) answers = message.rows;
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      if (code !== 0) console.error(`\n${name} could not be answered: it ended with ${code}`);
      resolve(code === 0 ? answers : null);
    });
  });
}

/**
 * @param {readonly Answer[]} answers to one question
 * @param {number} tookMs
 */
function print(answers, tookMs) {
  console.log(`\n${pc.bold(answers[0]?.question ?? "")} (${(tookMs / 1_000).toFixed(0)} s)`);
  const table = new Table({
    head: ["", "beside", "ratio", "reach", "rounds", "figures"],
    style: { head: [] },
  });
  for (const row of answers) {
    const reached = isReached(row);
    const paint = reached === null ? String : reached ? pc.green : pc.red;
    table.push([
      row.what,
      row.beside,
      paint(ratioText(row)),
      row.gate ? `${reachText(row)} (gate)` : reachText(row),
      spreadText(row),
      Object.entries(row.sides)
        .map(([name, side]) => `${name} ${sideText(side)}`)
        .join("\n"),
    ]);
  }
  console.log(table.toString());
}
