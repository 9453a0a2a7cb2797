// Runs random programs of the public API against models of it, and checks every answer.
//
//   npm run verify -- model                               10,000 programs of each family
//   npm run verify -- model --programs 500 --family tasks --seed 7
//   npm run verify -- model --replay FILE                 one program, as a failure has printed it
//   --json FILE     writes the figures
//
// The families are leases, tasks, elections and shards. Ends with 1 if an answer is wrong, or if an operation
// or an outcome never happened (in 1,000 programs or more), 130 after Ctrl-C.
import { readFileSync } from "node:fs";
import { openSources } from "../../scripts/support/sources.js";
import { argumentsOf } from "../support/arguments.js";
import { INTERRUPTED, interruption } from "../support/interrupt.js";
import { writeReport } from "../support/provenance.js";

/** Fewer programs may well miss a rare outcome. */
const ENOUGH_PROGRAMS = 1_000;
const { values } = argumentsOf(import.meta.url, {
  options: {
    programs: { type: "string", default: "10000" },
    seed: { type: "string", default: "1" },
    family: { type: "string" },
    replay: { type: "string" },
    json: { type: "string" },
  },
});
const programs = wholeNumber(values.programs, "--programs");
const seed = wholeNumber(values.seed, "--seed");
// Many errors are made and caught there, and few stacks are read.
Error.stackTraceLimit = 3;
const sources = await openSources();
const { FAMILIES, replay, report, runPrograms } = await sources.load(
  "/verification/model/index.ts",
);
try {
  process.exitCode = values.replay === undefined ? await campaign() : await again(values.replay);
} finally {
  await sources.close();
}

async function campaign() {
  const chosen = FAMILIES.filter(({ name }) => name === (values.family ?? name));
  if (chosen.length === 0) throw new RangeError(`there is no family named ${values.family}`);
  const signal = interruption();
  const results = [];
  for (const family of chosen) {
    if (signal.aborted) break;
    const begin = performance.now();
    const result = await runPrograms(family, { programs, seed, signal });
    const seconds = Math.round((performance.now() - begin) / 1_000);
    results.push({ ...result, seconds });
    console.log(`${result.programs} programs of ${family.name} in ${seconds} s:`, result.counts);
    if (result.failure) console.log(`\n${report(result)}\n`);
    else if (result.missing.length > 0) console.log("never happened:", result.missing);
  }
  writeReport(values.json, "model", { seed, interrupted: signal.aborted, results });
  const isWrong = ({ failure, missing }) =>
    failure !== null || (programs >= ENOUGH_PROGRAMS && !signal.aborted && missing.length > 0);
  if (results.some(isWrong)) return 1;
  return signal.aborted ? INTERRUPTED : 0;
}

async function again(file) {
  const { failure, story } = await replay(JSON.parse(readFileSync(file, "utf8")));
  console.log(story);
  console.log(failure === null ? "Every answer was right." : failure);
  return failure === null ? 0 : 1;
}

function wholeNumber(text, name) {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1)
    throw new RangeError(`${name} must be a whole number from 1 on`);
  return value;
}
