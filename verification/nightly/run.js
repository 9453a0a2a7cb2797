// Runs everything that proves more than `npm test` has time for, in parts: a night of about ten hours on two cores.
import { spawn } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { INTERRUPTED } from "../support/interrupt.js";
import { provenance, sourcesHash } from "../support/provenance.js";
import { finish, isDone } from "./report.js";
import { STEPS } from "./steps.js";

const HELP = `Usage: npm run verify -- nightly [options]

${STEPS.map(({ name, what }) => `  ${name.padEnd(14)} ${what}`).join("\n")}

  --only NAME,...   some of these, or of their parts: histories, histories-etcd
  --minutes N       begins no part that would end later than in N minutes
  --scale N         so much of each size; 0.02 tries them all in half an hour (default 1)
  --again           repeats parts that have ended, too
  --list            prints the parts, and whether each has ended, and ends
  --out FOLDER      for the reports (default: nightly)

Examples:
  npm run verify -- nightly                    continues where the last one ended
  npm run verify -- nightly --minutes 120      as much of it as fits into two hours
  npm run verify -- nightly --only chaos,soak --scale 0.05 --out /tmp/tried
  npm run verify -- reliability nightly        writes the figures of the reports into docs/reliability.md

A part that has ended well is not repeated: its report counts while the sources of the packages are unchanged. A
part that fails does not keep the others from running; the command then ends with 1. Ctrl-C ends the part that
runs, and the night with it (130).
`;

const { values } = parseArgs({
  options: {
    only: { type: "string", default: STEPS.map(({ name }) => name).join(",") },
    minutes: { type: "string", default: "Infinity" },
    scale: { type: "string", default: "1" },
    again: { type: "boolean", default: false },
    list: { type: "boolean", default: false },
    out: { type: "string", default: "nightly" },
    help: { type: "boolean", default: false },
  },
});
const names = values.only.split(",");
const [scale, minutes] = [Number(values.scale), Number(values.minutes)];
const all = STEPS.flatMap(({ name: step, what, parts }) =>
  parts.map((part) => ({ ...part, step, what })),
);
const wrong = [
  ...names
    .filter((name) => !all.some((part) => part.step === name || part.name === name))
    .map((name) => `no step or part is named ${name}`),
  ...(scale > 0 ? [] : ["--scale must be a number above 0"]),
  ...(minutes > 0 ? [] : ["--minutes must be a number above 0"]),
];
if (values.help || wrong.length > 0) {
  for (const line of wrong) process.stderr.write(`${line}\n`);
  (wrong.length > 0 ? process.stderr : process.stdout).write(HELP);
  process.exit(wrong.length > 0 ? 64 : 0);
}

const root = fileURLToPath(new URL("../..", import.meta.url));
const out = resolve(values.out);
mkdirSync(out, { recursive: true });
const sources = sourcesHash();
const wanted = all
  .filter(({ step, name }) => names.includes(step) || names.includes(name))
  .map((part) => ({ ...part, report: join(out, `${part.name}.json`) }));
const doneOf = (/** @type {string} */ report) => isDone(report, { sources, scale });
if (values.list) {
  for (const { name, report, minutes } of wanted)
    console.log(`${doneOf(report) ? "ended" : `${minutes} min`.padStart(6)}  ${name}`);
  process.exit(0);
}

let interrupted = false;
/** @type {import("node:child_process").ChildProcess | undefined} */
let running;
// On a terminal the part receives Ctrl-C itself. A second signal would end it without a report.
process.on("SIGINT", () => {
  interrupted = true;
});
process.on("SIGTERM", () => {
  interrupted = true;
  running?.kill("SIGTERM");
});

const begunMs = performance.now();
const minutesSince = (/** @type {number} */ ms) => (performance.now() - ms) / 60_000;
const minutesOf = (/** @type {readonly import("./steps.js").Part[]} */ parts) =>
  Math.ceil(parts.reduce((sum, part) => sum + part.minutes * Math.min(1, scale), 0));
const failed = [];
const postponed = [];
for (const [at, part] of wanted.entries()) {
  if (interrupted) break;
  const { name, what, report } = part;
  if (!values.again && doneOf(report)) {
    console.log(`== ${name}: has ended`);
    continue;
  }
  if (minutesSince(begunMs) + minutesOf([part]) > minutes) {
    postponed.push(name);
    continue;
  }
  const left = minutesOf(wanted.slice(at).filter(({ report }) => values.again || !doneOf(report)));
  console.log(`\n== ${name} (${at + 1} of ${wanted.length}, ${left} min left): ${what}`);
  const startedMs = performance.now();
  const code = await carryOut(part);
  console.log(
    `== ${name}: ${code === 0 ? "holds" : `FAILS (${code})`}, ${minutesSince(startedMs).toFixed(1)} min`,
  );
  if (code !== 0) failed.push(name);
}
if (postponed.length > 0) console.log(`\nfor another time: ${postponed.join(", ")}`);
console.log(failed.length === 0 ? "\nall that ran hold" : `\nfailed: ${failed.join(", ")}`);
process.exitCode = interrupted ? INTERRUPTED : failed.length === 0 ? 0 : 1;

/**
 * @param {import("./steps.js").Part & { step: string, report: string }} part
 * @returns {Promise<number | string>} what it ended with
 */
async function carryOut({ step, command, prints = false, report }) {
  const argv = command(scale, report);
  const origin = provenance(argv);
  // If this part writes no report, an old one must not be taken for it.
  rmSync(report, { force: true });
  running = spawn(process.execPath, argv, {
    cwd: root,
    stdio: ["ignore", prints ? "pipe" : "inherit", "inherit"],
  });
  let printed = "";
  running.stdout?.setEncoding("utf8").on("data", (text) => {
    printed += text;
  });
  /** @type {number | string} */
  const code = await new Promise((ends) => {
    running?.once("close", (code, signal) => ends(code ?? signal));
  });
  const isReport = finish(report, {
    ...(prints && { printed, origin: { kind: step, ...origin } }),
    how: { scale, ended: code },
  });
  return isReport ? code : code || 1;
}
