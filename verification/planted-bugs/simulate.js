// Runs seeds of a scenario, of the simulation as it stands here, until some break a property:
//
//   node verification/planted-bugs/simulate.js SCENARIO FROM SEEDS
//
// SCENARIO "all": that of each seed, as for `npm run verify -- sim`. Prints as JSON how many ran, and the failures among the last CHUNK.
import { rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Worker } from "node:worker_threads";
import { compilePrograms } from "../../scripts/support/sources.js";

const CHUNK = 10;
const [scenario, from, seeds] = process.argv.slice(2);
new Worker(new URL("./watch.js", import.meta.url)).unref();

const root = fileURLToPath(new URL("../..", import.meta.url));
const outDir = join(root, "simulated");
const programs = Object.fromEntries(
  ["index", "settled"].map((name) => [name, join(root, `verification/simulation/${name}.ts`)]),
);
process.once("exit", () => rmSync(outDir, { recursive: true, force: true }));
await compilePrograms(programs, outDir);

const load = (program) => import(pathToFileURL(join(outDir, `${program}.js`)).href);
const { newReport, runSeed } = await load("index");
// As the threads of `npm run verify -- sim` have it.
const { settledByTicks: settled } = await load("settled");
Error.stackTraceLimit = 0;
const name = scenario === "all" ? undefined : scenario;
let report = newReport();
let ran = 0;
while (ran < Number(seeds) && report.failures.length === 0) {
  report = newReport();
  for (let chunk = 0; chunk < CHUNK; chunk += 1) {
    await runSeed(report, Number(from) + ran, { name, settled });
    ran += 1;
  }
}
const failures = report.failures.map(({ seed, violation }) => ({ seed, violation }));
process.stdout.write(JSON.stringify({ ran, of: CHUNK, failures }));
// Worlds that a bug has brought to a standstill leave timers behind.
process.exit(0);
