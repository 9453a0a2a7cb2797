// Explores every state of the protocol model with SPIN, and shows that broken variants of it fail.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { INTERRUPTED, interruption } from "../support/interrupt.js";
import { progressBar } from "../support/progress.js";
import { provenance, writeReport } from "../support/provenance.js";
import { CONFIGURATIONS, VARIANTS } from "./configurations.js";
import { pageOf } from "./page.js";
import { isAsExpected, textOf } from "./report.js";
import { missing, verify } from "./verify.js";

const ALL = [...CONFIGURATIONS, ...VARIANTS];
const HELP = `Usage: npm run verify -- spin [NAME ...] [options]

Configurations of the protocol, in which every property must hold:
${CONFIGURATIONS.map(({ name, what }) => `  ${name.padEnd(28)} ${what}`).join("\n")}

Broken variants, each with the property that it must break:
${VARIANTS.map(({ name, breaks }) => `  ${name.padEnd(28)} ${breaks}`).join("\n")}

  --quick        only one small configuration, and three variants
  --jobs N       so many at a time (default 2); each takes up to 3.5 GB
  --json FILE    writes the figures, and what happened in each variant
  --page         also writes docs/model-checking.md
  --report       only writes docs/model-checking.md again, from the last figures

Examples:
  npm run verify -- spin
  npm run verify -- spin sessions NO_FENCE

Needs spin and gcc; on Debian: apt-get install spin gcc libc6-dev
Ends with 1 if a property is broken or a variant does not break its own, and
with 69 if spin or gcc is missing. Ctrl-C ends it with 130, after it has reported what was explored by then.
`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: "boolean", default: false },
    jobs: { type: "string", default: "2" },
    json: { type: "string" },
    page: { type: "boolean", default: false },
    report: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
const jobs = Number(values.jobs);
const isWhole = !values.quick && positionals.length === 0;
const wrong = [
  ...positionals
    .filter((wanted) => !ALL.some(({ name }) => name === wanted))
    .map((wanted) => `there is no configuration or variant named ${wanted}`),
  ...(Number.isSafeInteger(jobs) && jobs > 0 ? [] : ["--jobs must be a whole number from 1 on"]),
  ...(values.page && !isWhole ? ["--page needs a whole run"] : []),
];
if (values.help || wrong.length > 0) {
  for (const line of wrong) process.stderr.write(`${line}\n`);
  (wrong.length > 0 ? process.stderr : process.stdout).write(HELP);
  process.exit(wrong.length > 0 ? 64 : 0);
}

const KEPT = fileURLToPath(new URL("../../docs/reliability/spin.json", import.meta.url));
const PAGE = fileURLToPath(new URL("../../docs/model-checking.md", import.meta.url));
if (values.report) writeFileSync(PAGE, pageOf(JSON.parse(readFileSync(KEPT, "utf8"))));
else process.exitCode = await explore();

async function explore() {
  const lacking = missing();
  if (lacking !== null) {
    process.stderr.write(`${lacking}\n`);
    return 69;
  }
  const chosen = ALL.filter(
    ({ name, isQuick }) =>
      (!values.quick || isQuick) && (positionals.length === 0 || positionals.includes(name)),
  );
  const interrupted = interruption();
  const failing = new AbortController();
  const signal = AbortSignal.any([interrupted, failing.signal]);
  const bar = progressBar(chosen.length);
  /** @type {Map<string, import("./verify.js").Result>} */
  const results = new Map();
  /** @type {Set<string>} */
  const running = new Set();
  const rest = chosen.values();
  const work = async () => {
    for (const one of rest) {
      if (signal.aborted) return;
      running.add(one.name);
      bar.draw(results.size, [...running].join(", "));
      try {
        results.set(one.name, await verify(one, signal));
      } catch (error) {
        // What was cut short says nothing.
        if (signal.aborted) return;
        failing.abort();
        process.stderr.write(`${one.name}: ${error instanceof Error ? error.message : error}\n`);
      }
      running.delete(one.name);
      bar.draw(results.size, [...running].join(", "));
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  bar.clear();
  const report = {
    configurations: withResults(CONFIGURATIONS, results),
    variants: withResults(VARIANTS, results),
  };
  process.stdout.write(`${textOf(report)}\n`);
  writeReport(values.json, "spin", { interrupted: interrupted.aborted, ...report });
  if (values.page && !signal.aborted) {
    const kept = { kind: "spin", ...provenance(), ...report };
    writeFileSync(KEPT, `${JSON.stringify(kept, null, 2)}\n`);
    writeFileSync(PAGE, pageOf(kept));
  }
  if (failing.signal.aborted || !isAsExpected(report)) return 1;
  return interrupted.aborted ? INTERRUPTED : 0;
}

/**
 * @template {import("./configurations.js").Configuration} One
 * @param {readonly One[]} all
 * @param {Map<string, import("./verify.js").Result>} results
 */
function withResults(all, results) {
  return all.flatMap((one) => {
    const result = results.get(one.name);
    return result === undefined ? [] : [{ ...one, ...result }];
  });
}
