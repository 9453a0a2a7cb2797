// Runs everything that proves more than `npm test` has time for; about six hours on two cores.
import { spawn } from "node:child_process";
import { createWriteStream, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { INTERRUPTED } from "../support/interrupt.js";
import { provenance } from "../support/provenance.js";
import { STEPS } from "./steps.js";

const HELP = `Usage: npm run nightly -- [options]

${STEPS.map(({ name, what }) => `  ${name.padEnd(14)} ${what}`).join("\n")}

  --only NAME,...   some of them
  --scale N         so much of each size; 0.02 tries them all in half an hour (default 1)
  --out FOLDER      for the reports (default: nightly)

Examples:
  npm run nightly
  npm run nightly -- --only chaos,soak --scale 0.05
  npm run reliability -- nightly      writes the figures of the reports into docs/reliability.md

A step that fails does not keep the others from running; the command then ends with 1. Ctrl-C ends the
step that runs, which still reports, and the night with it (130).
`;

const { values } = parseArgs({
  options: {
    only: { type: "string", default: STEPS.map(({ name }) => name).join(",") },
    scale: { type: "string", default: "1" },
    out: { type: "string", default: "nightly" },
    help: { type: "boolean", default: false },
  },
});
const names = values.only.split(",");
const scale = Number(values.scale);
const wrong = [
  ...names
    .filter((name) => !STEPS.some((step) => step.name === name))
    .map((name) => `no step is named ${name}`),
  ...(scale > 0 ? [] : ["--scale must be a number above 0"]),
];
if (values.help || wrong.length > 0) {
  for (const line of wrong) process.stderr.write(`${line}\n`);
  (wrong.length > 0 ? process.stderr : process.stdout).write(HELP);
  process.exit(wrong.length > 0 ? 64 : 0);
}

const root = fileURLToPath(new URL("../..", import.meta.url));
const out = resolve(values.out);
mkdirSync(out, { recursive: true });
let interrupted = false;
/** @type {import("node:child_process").ChildProcess | undefined} */
let running;
// On a terminal the step receives Ctrl-C itself. A second signal would end it without a report.
process.on("SIGINT", () => {
  interrupted = true;
});
process.on("SIGTERM", () => {
  interrupted = true;
  running?.kill("SIGTERM");
});

const failed = [];
for (const step of STEPS.filter(({ name }) => names.includes(name))) {
  if (interrupted) break;
  const startedMs = performance.now();
  console.log(`\n== ${step.name}: ${step.what}${scale === 1 ? "" : ` (at a scale of ${scale})`}`);
  const code = await carryOut(step);
  const minutes = ((performance.now() - startedMs) / 60_000).toFixed(1);
  console.log(`== ${step.name}: ${code === 0 ? "holds" : `FAILS (${code})`}, ${minutes} min`);
  if (code !== 0) failed.push(step.name);
}
console.log(failed.length === 0 ? "\nall hold" : `\nfailed: ${failed.join(", ")}`);
process.exitCode = interrupted ? INTERRUPTED : failed.length === 0 ? 0 : 1;

/**
 * @param {import("./steps.js").Step} step
 * @returns {Promise<number | string>} what it ended with
 */
async function carryOut({ name, command, prints = false }) {
  const report = join(out, `${name}.json`);
  const argv = command(scale, report);
  const origin = provenance(argv);
  // If this step writes no report, an old one must not be taken for it.
  rmSync(report, { force: true });
  running = spawn(process.execPath, argv, {
    cwd: root,
    stdio: ["ignore", prints ? "pipe" : "inherit", "inherit"],
  });
  const saved =
    prints && running.stdout ? save(running.stdout, report, { kind: name, ...origin }) : true;
  /** @type {Promise<number | string>} */
  const ended = new Promise((ends) => {
    running?.once("close", (code, signal) => ends(code ?? signal));
  });
  const [code, isSaved] = await Promise.all([ended, saved]);
  return isSaved ? code : code || 1;
}

/** What only prints its figures does not say where they come from. Resolves to whether it was a report. */
async function save(
  /** @type {import("node:stream").Readable} */ printed,
  /** @type {string} */ report,
  /** @type {object} */ origin,
) {
  try {
    await pipeline(printed, createWriteStream(report));
    const figures = JSON.parse(readFileSync(report, "utf8"));
    writeFileSync(report, `${JSON.stringify({ ...origin, ...figures }, null, 1)}\n`);
    return true;
  } catch (error) {
    rmSync(report, { force: true });
    console.error(`no report: ${error}`);
    return false;
  }
}
