// Changes the code in small ways, one at a time, and shows which of these mutants no unit test notices.
// Stryker makes the mutants and runs the tests.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { provenance } from "../support/provenance.js";
import { afterAnotherTest, figuresOf, placesOf, withExplanations } from "./figures.js";
import { pageOf } from "./page.js";
import { isMutated, PARTS } from "./parts.js";

const HELP = `Usage: npm run verify -- mutants [PART ...] [options]

${PARTS.map(({ name, what, target }) => `  ${name.padEnd(10)} ${what} (target: ${target} %)`).join("\n")}

  --since COMMIT    only the files that have changed since; the reports stay as they are
  --unexplained     only what survived without an explanation: what is killed now, or gone, leaves the report
  --force           test again what a former run has tested
  --concurrency N   test N mutants at a time (default 1)
  --json FILE       writes the figures there, and leaves the report and the page as they are
  --report          only write survivors.md again, with the explanations as they are now

Examples:
  npm run verify -- mutants
  npm run verify -- mutants rules election
  npm run verify -- mutants --since HEAD~3

Writes a report of each part into docs/reliability/, and verification/mutants/survivors.md. Results are kept in .mutants/:
the next run tests only mutants whose code or tests have changed, and continues where Ctrl-C ended this one.
Ends with 1 if a part misses its target or, with --since, if a survivor has no explanation.
`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    since: { type: "string" },
    unexplained: { type: "boolean", default: false },
    force: { type: "boolean", default: false },
    concurrency: { type: "string", default: "1" },
    json: { type: "string" },
    report: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
const concurrency = Number(values.concurrency);
const wrong = [
  ...positionals
    .filter((wanted) => !PARTS.some(({ name }) => name === wanted))
    .map((wanted) => `no part is named ${wanted}`),
  ...(Number.isSafeInteger(concurrency) && concurrency > 0
    ? []
    : ["--concurrency must be a whole number from 1 on"]),
];
if (values.help || wrong.length > 0) {
  for (const line of wrong) process.stderr.write(`${line}\n`);
  (wrong.length > 0 ? process.stderr : process.stdout).write(HELP);
  process.exit(wrong.length > 0 ? 64 : 0);
}

const root = fileURLToPath(new URL("../..", import.meta.url));
// Stryker takes all paths from there.
process.chdir(root);
/** The report of a part. */
const reportOf = (/** @type {string} */ name) =>
  values.json ?? `docs/reliability/mutants-${name}.json`;
const isWanted = (/** @type {string} */ name) =>
  positionals.length === 0 || positionals.includes(name);
const parts = PARTS.filter(({ name }) => isWanted(name));

const changed = values.since === undefined ? null : changedSince(values.since);
let failed = false;
for (const part of values.report ? [] : parts) {
  if (values.unexplained) {
    await testAgain(part);
    continue;
  }
  const files = changed?.filter((file) => isMutated(part, file)) ?? null;
  if (files?.length === 0) continue;
  const figures = figuresOf(await mutate(part, files));
  if (files === null) keep(part, figures);
  else {
    const { survivors } = withExplanations(figures);
    const shown = survivors.filter(({ file, why }) => files.includes(file) && why === "");
    for (const { file, line, mutator, original, replacement } of shown)
      console.log(`SURVIVED  ${file}:${line} ${mutator}: ${original} → ${replacement}`);
    failed ||= shown.length > 0;
  }
}
if (changed === null) {
  const files = values.json ? [values.json] : PARTS.map(({ name }) => reportOf(name));
  const reports = files.filter((file) => existsSync(file)).map((file) => explained(file));
  const { text, judged } = pageOf({ parts: reports.flatMap(({ parts }) => parts) });
  if (values.json === undefined) writeFileSync("verification/mutants/survivors.md", text);
  const own = judged.filter(({ name }) => values.json === undefined || isWanted(name));
  for (const { name, seen, holds } of own)
    console.log(`${holds ? "ok   " : "SHORT"} ${name.padEnd(10)} ${seen}`);
  failed = own.some(({ holds }) => !holds);
}
process.exitCode = failed ? 1 : 0;

/**
 * @param {import("./parts.js").Part} part
 * @param {readonly string[] | null} files only these of its files, or places in them; null: all
 */
async function mutate({ name, mutate: globs, tests }, files) {
  console.log(`\n== ${name}`);
  process.env["MUTANTS_TESTS"] = tests.join("|");
  // Loaded late: it takes longer than --help.
  const { Stryker } = await import("@stryker-mutator/core");
  return await new Stryker({
    mutate: [...(files ?? globs), "!**/*.test.ts"],
    testRunner: "vitest",
    plugins: [
      "@stryker-mutator/vitest-runner",
      fileURLToPath(new URL("plugins.js", import.meta.url)),
    ],
    vitest: { configFile: "verification/mutants/vitest.config.ts", related: true },
    coverageAnalysis: "perTest",
    // A constant of a module is evaluated once, so a mutant of it needs a new process and all tests.
    ignoreStatic: true,
    ignorers: ["prose", "names", "constants"],
    incremental: !values.unexplained,
    incrementalFile: `.mutants/${name}.json`,
    force: values.force,
    reporters: ["progress-append-only", "partial"],
    concurrency,
    timeoutMS: 4_000,
    timeoutFactor: 2,
    tempDirName: ".mutants/sandbox",
    cleanTempDir: "always",
    ignorePatterns: [
      "dist",
      ...[
        "apps",
        "bench",
        "deploy",
        "docs",
        "examples",
        "nightly",
        ".mutants",
        "packages/*/docs",
      ].map((folder) => `/${folder}`),
    ],
    // Stryker would rewrite tsconfig.json with a function that TypeScript 7 no longer has.
    tsconfigFile: "no-tsconfig.json",
    disableTypeChecks: false,
    allowConsoleColors: process.stdout.isTTY,
    logLevel: "warn",
  }).runMutationTest();
}

/** Writes the report again, with the explanations as they are now. */
function explained(/** @type {string} */ file) {
  const report = JSON.parse(readFileSync(file, "utf8"));
  report.parts = report.parts.map((part) => withExplanations(part));
  writeFileSync(file, `${JSON.stringify(report, null, 2)}\n`);
  return report;
}

/** Tests the survivors without an explanation again, and keeps the rest of the figures of this part. */
async function testAgain(/** @type {import("./parts.js").Part} */ part) {
  const file = reportOf(part.name);
  const report = JSON.parse(readFileSync(file, "utf8"));
  const figures = report.parts.find(
    (/** @type {{ name: string }} */ one) => one.name === part.name,
  );
  const places = placesOf(withExplanations(figures).survivors.filter(({ why }) => why === ""));
  const results = places.length === 0 ? [] : await mutate(part, places);
  const { date, commit } = provenance();
  Object.assign(figures, afterAnotherTest(figures, results), { again: { date, commit } });
  writeFileSync(file, `${JSON.stringify(report, null, 2)}\n`);
}

/** Replaces the figures of this part in the report. */
function keep(/** @type {import("./parts.js").Part} */ { name }, /** @type {object} */ figures) {
  const { date, commit, sources, node, machine } = provenance();
  /** @type {{ name: string }[]} */
  let known = [];
  try {
    known = JSON.parse(readFileSync(reportOf(name), "utf8")).parts;
  } catch {
    // The first run.
  }
  const all = PARTS.flatMap((part) =>
    part.name === name
      ? [{ name, date, commit, sources, node, machine, ...figures }]
      : known.filter((one) => one.name === part.name),
  );
  const text = JSON.stringify({ kind: "mutants", sources, parts: all }, null, 2);
  writeFileSync(reportOf(name), `${text}\n`);
}

function changedSince(/** @type {string} */ commit) {
  const listed = execFileSync("git", ["diff", "--name-only", "--diff-filter=d", commit], {
    cwd: root,
    encoding: "utf8",
  });
  return listed.split("\n").filter((file) => file !== "");
}
