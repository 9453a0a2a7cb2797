// Plants one bug after the other in a copy of the project and shows which check catches it. A bug that
// nothing catches is a check that is missing: the command then fails.
import { writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { provenance } from "../support/provenance.js";
import { AREAS, BUGS, KINDS } from "./bugs.js";
import { Copy } from "./copy.js";
import { markdown } from "./report.js";

const HELP = `Usage: npm run planted-bugs -- [NAME ...] [options]

  --area AREA        only those of ${AREAS.join(", ")}
  --kind KIND        only those that are caught by ${KINDS.join(", ")}
  --jobs N           so many copies at a time (default 1)
  --no-control       do not run the checks without a bug first
  --json FILE        writes the whole report
  --markdown FILE    writes the table
  --list             names the bugs

Examples:
  npm run planted-bugs -- --markdown docs/planted-bugs.md
  npm run planted-bugs -- deadline-from-receipt
  npm run planted-bugs -- --area redis --jobs 2

Ends with 1 if a bug was caught by nothing, or a check fails without one.
`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    area: { type: "string", multiple: true, default: AREAS },
    kind: { type: "string", multiple: true, default: KINDS },
    jobs: { type: "string", default: "1" },
    "no-control": { type: "boolean", default: false },
    json: { type: "string" },
    markdown: { type: "string" },
    list: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
const unknown = [
  ...values.area.filter((area) => !AREAS.includes(area)),
  ...values.kind.filter((kind) => !KINDS.includes(kind)),
  ...positionals.filter((wanted) => !BUGS.some(({ name }) => name === wanted)),
];
if (values.help || unknown.length > 0) {
  for (const name of unknown) process.stderr.write(`not in the list: ${name}\n`);
  (unknown.length > 0 ? process.stderr : process.stdout).write(HELP);
  process.exit(unknown.length > 0 ? 2 : 0);
}
const wanted = BUGS.filter(({ name }) => positionals.length === 0 || positionals.includes(name));
const bugs = wanted.filter(
  ({ area, check }) => values.area.includes(area) && values.kind.includes(check.kind),
);
if (values.list) {
  for (const { area, name, what } of bugs) process.stdout.write(`${area}  ${name}: ${what}\n`);
  process.exit(0);
}

const startedMs = performance.now();
const secondsSince = (ms) => (performance.now() - ms) / 1_000;
const report = { kind: "planted-bugs", ...provenance(), controls: [], bugs: [], seconds: 0 };
const copies = Array.from({ length: Math.max(1, Number(values.jobs)) }, () => new Copy());
let ended = false;

/** Each copy takes the next one as it comes free. */
async function each(items, use) {
  const rest = items.values();
  const work = async (copy) => {
    for (const item of rest) if (!ended) await use(copy, item);
  };
  await Promise.all(copies.map(work));
}

function say(text) {
  if (!ended) process.stdout.write(`${text}\n`);
}

/** Without a bug; what fails then would catch anything. */
async function control(copy, checks) {
  const beganMs = performance.now();
  const [{ what }] = checks;
  const problem = await checks[0].control(copy, checks).catch((error) => error.message);
  report.controls.push({ check: what, problem, seconds: secondsSince(beganMs) });
  say(
    `${problem === null ? "passes" : "FAILS "}  ${what} without a bug${problem ? `: ${problem}` : ""}`,
  );
}

async function plant(copy, bug) {
  const { name, area, file, what, check } = bug;
  const beganMs = performance.now();
  let [killedBy, problem] = [null, "nothing noticed"];
  try {
    killedBy = await copy.with(bug, () => check.run(copy));
  } catch (error) {
    problem = error.message;
  }
  const seconds = secondsSince(beganMs);
  const shown = { name, area, file, what, kind: check.kind, check: check.what };
  report.bugs.push({ ...shown, killedBy, problem: killedBy ? null : problem, seconds });
  const verdict = killedBy ? "caught" : "MISSED";
  say(
    `${verdict}  ${name.padEnd(36)} ${check.what}: ${killedBy ?? problem} (${seconds.toFixed(0)} s)`,
  );
}

/** Also of what there is when it is told to stop. */
async function finish() {
  ended = true;
  await Promise.all(copies.map((copy) => copy.remove()));
  report.seconds = secondsSince(startedMs);
  const order = new Map(BUGS.map(({ name }, at) => [name, at]));
  report.bugs.sort((a, b) => order.get(a.name) - order.get(b.name));
  if (values.json) writeFileSync(values.json, `${JSON.stringify(report, null, 2)}\n`);
  if (values.markdown) writeFileSync(values.markdown, markdown(report));
  const caught = report.bugs.filter(({ killedBy }) => killedBy).length;
  const broken = report.controls.filter(({ problem }) => problem).length;
  process.stdout.write(
    `${caught} of ${bugs.length} bugs caught, ${report.controls.length - broken} of ${report.controls.length} checks pass without one\n`,
  );
  process.exitCode = caught < bugs.length || broken > 0 ? 1 : 0;
}

for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, () => {
    void finish().then(() => process.exit(1));
  });
}
try {
  if (!values["no-control"]) {
    const checks = new Map(bugs.map(({ check }) => [check.what, []]));
    for (const { check } of bugs) checks.get(check.what).push(check);
    await each([...checks.values()], control);
  }
  await each(bugs, plant);
} finally {
  if (!ended) await finish();
}
