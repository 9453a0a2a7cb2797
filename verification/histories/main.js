// Makes histories of clients on real stores under faults, and checks every one of them.
//
//   npm run verify -- histories --count 200                        on PostgreSQL, from seed 1
//   npm run verify -- histories --count 5 --from 17 --target http  memory, postgres, http, redis, etcd, consul, zookeeper
//                                                           or kubernetes; with commas: one after the other
//   npm run verify -- histories --target redis:900,etcd:400        so many of each
//   --parallel 4    histories at a time       --keep FOLDER   writes those that fail as JSON lines
//   --json FILE     writes the figures
//
// Ends with 1 if a history is wrong or a store could not be tried, 2 if more than one in twenty was too
// hard to judge, 130 after Ctrl-C, which reports those that were made by then.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openSources } from "../../scripts/support/sources.js";
import { argumentsOf } from "../support/arguments.js";
import { INTERRUPTED, interruption } from "../support/interrupt.js";
import { writeReport } from "../support/provenance.js";

/** Of those that were made. A checker that judges fewer has shown little. */
const MOST_UNKNOWN = 0.05;
const { values } = argumentsOf(import.meta.url, {
  options: {
    count: { type: "string", default: "200" },
    from: { type: "string", default: "1" },
    target: { type: "string", default: "postgres" },
    parallel: { type: "string", default: "4" },
    keep: { type: "string" },
    json: { type: "string" },
  },
});
const usualCount = positive(values.count, "--count");
const from = positive(values.from, "--from");
const parallel = positive(values.parallel, "--parallel");
const campaigns = values.target.split(",").map((target) => {
  const [name, own = `${usualCount}`] = target.split(":");
  return { target: name, count: positive(own, `the count of ${name}`) };
});

const sources = await openSources();
const { runCampaign } = await sources.load("/verification/histories/campaign.ts");
const { toJsonLines } = await sources.load("/packages/leasehold/src/testing/index.ts");
const { progressLine } = await sources.load("/packages/leasehold-server/src/cli/progress.ts");

const ending = interruption();

const results = [];
const failed = {};
for (const campaign of campaigns) {
  if (ending.aborted) break;
  try {
    await carryOut(campaign);
  } catch (error) {
    // The others are tried, and reported, all the same.
    console.error(error);
    failed[campaign.target] = `${error}`;
  }
}
const sum = (verdict) => results.reduce((all, { verdicts }) => all + verdicts[verdict], 0);
const tooHard = sum("unknown") > MOST_UNKNOWN * results.reduce((all, { count }) => all + count, 0);
const interrupted = ending.aborted;
writeReport(values.json, "histories", { from, interrupted, results, failed });
const fails = sum("wrong") > 0 || Object.keys(failed).length > 0;
process.exitCode = fails ? 1 : interrupted ? INTERRUPTED : tooHard ? 2 : 0;
await sources.close();

async function carryOut({ target, count }) {
  const begin = performance.now();
  let judged = 0;
  const campaign = await runCampaign({
    target,
    seeds: Array.from({ length: count }, (_, at) => from + at),
    parallel,
    signal: ending,
    onResult(result) {
      judged += 1;
      if (process.stderr.isTTY) {
        process.stderr.write(progressLine(judged, count, target) + (judged === count ? "\n" : ""));
      }
      if (result.verdict !== "right") show(target, result);
    },
  });
  const seconds = Math.round((performance.now() - begin) / 1_000);
  results.push({ target, count: judged, seconds, ...campaign });
  console.log(`${judged} histories on ${target} in ${seconds} s:`, campaign.verdicts);
  console.log(`${campaign.requests} requests, answers:`, campaign.answers);
  console.log("on the way:", campaign.faults);
}

function positive(text, name) {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1)
    throw new RangeError(`${name} must be a whole number from 1 on`);
  return value;
}

function show(target, { seed, entries, verdict, explanation }) {
  const command = `npm run verify -- histories --target ${target} --count 1 --from ${seed}`;
  console.log(`seed ${seed}: ${verdict}, ${entries.length} requests; ${command}`);
  for (const line of explanation) console.log(`  ${line}`);
  if (values.keep === undefined) return;
  mkdirSync(values.keep, { recursive: true });
  writeFileSync(join(values.keep, `${target}-${seed}.jsonl`), toJsonLines(entries));
}
