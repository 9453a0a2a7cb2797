// Plants one bug after the other in a copy of the project and shows which test catches it, of which tier. A bug that
// nothing catches is a test that is missing: the command then fails.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { INTERRUPTED, interruption } from "../support/interrupt.js";
import { provenance } from "../support/provenance.js";
import { AREAS, BUGS } from "./bugs.js";
import { Copy } from "./copy.js";
import { Controls, plant, UNNOTICED } from "./plant.js";
import { markdown, shares } from "./report.js";

const HELP = `Usage: npm run verify -- planted-bugs [NAME ...] [options]

  --area AREA        only those of ${AREAS.join(", ")}
  --jobs N           so many copies at a time (default 1)
  --json FILE        writes the whole report, after each bug
  --resume           goes on with what FILE has from before
  --markdown FILE    writes the table
  --list             names the bugs

Examples:
  npm run verify -- planted-bugs --markdown verification/planted-bugs/caught.md
  npm run verify -- planted-bugs deadline-from-receipt
  npm run verify -- planted-bugs --area redis --jobs 2

Each bug is first tried against the tests of npm test that are near the changed source, then against the check that is
named for it. What has caught a bug must pass without one, otherwise it has caught nothing.
Ends with 1 if a bug was caught by nothing, or what caught one fails without it. Ctrl-C ends it with 130 after it has
reported what was tried by then, a second one at once.
`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    area: { type: "string", multiple: true, default: AREAS },
    jobs: { type: "string", default: "1" },
    json: { type: "string" },
    resume: { type: "boolean", default: false },
    markdown: { type: "string" },
    list: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
const jobs = Number(values.jobs);
const isLong = ({ check }) => (check?.scenario ? 1 : 0);
// Those that only seeds may show come last, because they take longest.
const bugs = BUGS.filter(
  ({ name, area }) =>
    (positionals.length === 0 || positionals.includes(name)) && values.area.includes(area),
).toSorted((a, b) => isLong(a) - isLong(b));
const unknown = [
  ...values.area.filter((area) => !AREAS.includes(area)),
  ...positionals.filter((wanted) => !BUGS.some(({ name }) => name === wanted)),
];
const wrong = [
  ...unknown.map((name) => `not in the list: ${name}`),
  // Nothing would be missed, and all would seem well.
  ...(unknown.length === 0 && bugs.length === 0 ? ["no bug fits all that is asked for"] : []),
  ...(values.resume && !values.json ? ["--resume needs --json FILE"] : []),
  ...(Number.isSafeInteger(jobs) && jobs > 0 ? [] : ["--jobs must be a whole number from 1 on"]),
];
if (values.help || wrong.length > 0) {
  for (const line of wrong) process.stderr.write(`${line}\n`);
  (wrong.length > 0 ? process.stderr : process.stdout).write(HELP);
  process.exit(wrong.length > 0 ? 64 : 0);
}
if (values.list) {
  for (const { area, name, what } of bugs) process.stdout.write(`${area}  ${name}: ${what}\n`);
  process.exit(0);
}

const order = new Map(BUGS.map(({ name }, at) => [name, at]));
const report = { kind: "planted-bugs", ...provenance(), controls: [], bugs: [] };
if (values.resume && existsSync(values.json)) {
  const { controls, bugs } = JSON.parse(readFileSync(values.json, "utf8"));
  // What has failed without a bug, or could not run with one, is tried again.
  report.controls = controls.filter(({ problem }) => problem === null);
  report.bugs = bugs.filter(({ killedBy, problem }) => killedBy || problem === UNNOTICED);
}
const copies = Array.from({ length: jobs }, () => new Copy());
let ended = false;
// Whatever ends this, but for a SIGKILL: then those in the copies notice by themselves.
process.on("exit", () => {
  for (const copy of copies) copy.removeNow();
});

/** Each copy takes the next one as it comes free. */
async function each(items, use) {
  const rest = items.values();
  const work = async (copy) => {
    for (const item of rest) if (!ended) await use(copy, item);
  };
  await Promise.all(copies.map(work));
}

function write() {
  report.bugs.sort((a, b) => order.get(a.name) - order.get(b.name));
  if (values.json) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
}

function say(text) {
  process.stdout.write(`${text}\n`);
}

/** What was cut short says nothing. */
const controls = new Controls(report.controls, (tried) => {
  if (ended) return;
  report.controls.push(tried);
  write();
  const { check, problem } = tried;
  const verdict = problem === null ? "passes" : "FAILS ";
  say(`${verdict}  ${check} without a bug${problem ? `: ${problem}` : ""}`);
});

async function tryBug(copy, bug) {
  const tried = await plant(copy, bug, controls);
  if (ended) return;
  report.bugs.push(tried);
  write();
  const { name, tier, killedBy, problem, seconds } = tried;
  const verdict = killedBy ? "caught" : "MISSED";
  const found = killedBy ? `${tier}, ${killedBy}` : problem;
  say(`${verdict}  ${name.padEnd(36)} ${found} (${seconds.toFixed(0)} s)`);
}

/** Also writes the reports after an interrupt, of the bugs tried by then. */
async function finish() {
  ended = true;
  await Promise.all(copies.map((copy) => copy.remove()));
  write();
  if (values.markdown) writeFileSync(values.markdown, markdown(report));
  const caught = report.bugs.filter(({ killedBy }) => killedBy).length;
  const broken = report.controls.filter(({ problem }) => problem).length;
  say(
    `${caught} of ${bugs.length} bugs caught, ${report.controls.length - broken} of the ${report.controls.length} files and seeds that caught one pass without`,
  );
  say("npm test catches");
  for (const share of shares(report.bugs)) say(`  ${share}`);
  process.exitCode = caught < bugs.length || broken > 0 ? 1 : 0;
}

interruption().addEventListener("abort", () => {
  if (!ended) void finish().then(() => process.exit(INTERRUPTED));
});
try {
  const tried = new Set(report.bugs.map(({ name }) => name));
  await each(
    bugs.filter(({ name }) => !tried.has(name)),
    tryBug,
  );
} finally {
  if (!ended) await finish();
}
