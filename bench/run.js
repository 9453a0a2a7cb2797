// Measures how fast Leasehold is, always beside a contender in the same run. Prints a table per question.
//
//   npm run bench                              everything
//   npm run bench -- --quick                   in a few minutes, at sizes of at most 100,000
//   npm run bench -- --only tasks,handover     questions by the names of their files
//   npm run bench -- --json FILE               [{ id, ratio, reach, better, samples }]
//
// Exits with 1 if a question fails. A ratio that misses its target is printed in red and is no error.
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import Table from "cli-table3";
import pc from "picocolors";
import { Engines } from "./engines.js";

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

const engines = new Engines();
/** @type {import("./measure.js").Row[]} */
const rows = [];
const unanswered = [];
const begin = performance.now();
const [cpu] = cpus();
console.log(
  `${cpus().length} x ${cpu?.model}, Node ${process.version}${values.quick ? ", quick" : ""}`,
);
let stopping = false;
process.once("SIGINT", () => {
  stopping = true;
  void engines.close().finally(() => process.exit(130));
});
for (const [at, name] of only.entries()) {
  /** @type {{ default: import("./measure.js").Question }} */
  const { default: question } = await import(`./questions/${name}.js`);
  const progress = (/** @type {string} */ text) => {
    if (process.stderr.isTTY)
      process.stderr.write(`\r\x1b[K${at + 1}/${only.length} ${name}: ${text}`);
  };
  try {
    const startedMs = performance.now();
    const answers = await question.run({
      quick: values.quick,
      engines,
      progress,
      size: (full, quick) => (values.quick ? quick : full),
    });
    progress("");
    print(question, answers, performance.now() - startedMs);
    rows.push(...answers);
  } catch (error) {
    if (stopping) break;
    unanswered.push(name);
    console.error(`\n${name} could not be answered:`, error);
  }
}
if (!stopping) {
  await engines.close();
  if (values.json !== undefined) {
    const report = rows.map(({ id, ratio, reach, better, samples }) => ({
      id,
      ratio,
      reach,
      better,
      samples,
    }));
    writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
  }
  const within = rows.filter(isWithin).length;
  const minutes = ((performance.now() - begin) / 60_000).toFixed(1);
  console.log(`\n${within} of ${rows.length} within reach, in ${minutes} minutes`);
  if (unanswered.length > 0) console.log(`not answered: ${unanswered.join(", ")}`);
  process.exit(unanswered.length > 0 ? 1 : 0);
}

/** @param {import("./measure.js").Row} row */
function isWithin({ ratio, reach, better }) {
  return better === "higher" ? ratio >= reach : ratio <= reach;
}

/**
 * @param {import("./measure.js").Question} question
 * @param {import("./measure.js").Row[]} answers
 * @param {number} tookMs
 */
function print({ question, sideBySide }, answers, tookMs) {
  console.log(`\n${pc.bold(question)}\nbeside ${sideBySide} (${(tookMs / 1_000).toFixed(0)} s)`);
  const table = new Table({
    head: ["", "ratio", "reach", "rounds", "figures"],
    style: { head: [] },
  });
  for (const row of answers) {
    const { what, ratio, reach, better, samples, figures } = row;
    const [low, high] = [Math.min(...samples), Math.max(...samples)];
    const shown = `${two(ratio)}x`;
    table.push([
      what,
      isWithin(row) ? pc.green(shown) : pc.red(shown),
      `${better === "higher" ? ">=" : "<="} ${reach}x`,
      `${two(low)} to ${two(high)}`,
      Object.entries(figures)
        .map(([name, text]) => `${name} ${text}`)
        .join("\n"),
    ]);
  }
  console.log(table.toString());
}

/** @param {number} value */
function two(value) {
  return value.toLocaleString("en", { maximumFractionDigits: 2, minimumFractionDigits: 2 });
}
