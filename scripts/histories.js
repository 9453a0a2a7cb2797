// Makes histories of clients on real stores under faults, and checks every one of them.
//
//   npm run histories -- --count 200                        on PostgreSQL, from seed 1
//   npm run histories -- --count 5 --from 17 --target http  memory, postgres, http, redis, etcd, zookeeper
//                                                           or kubernetes; with commas: one after the other
//   npm run histories -- --target redis:900,etcd:400        so many of each
//   --parallel 4    histories at a time       --keep FOLDER   writes those that fail as JSON lines
//   --json FILE     writes the figures
//
// Ends with 1 if a history is wrong, 2 if one could not be judged, 130 after Ctrl-C, which reports those
// that were made by then.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { writeReport } from "./support/provenance.js";
import { openSources } from "./support/sources.js";

const { values } = parseArgs({
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
const { runCampaign } = await sources.load("/test/support/history-campaign.ts");
const { toJsonLines } = await sources.load("/src/testing/index.ts");
const { progressLine } = await sources.load("/src/cli/progress.ts");

const ending = new AbortController();
// A second one ends it at once.
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => ending.abort());

const results = [];
for (const { target, count } of campaigns) {
  if (ending.signal.aborted) break;
  const begin = performance.now();
  let judged = 0;
  const campaign = await runCampaign({
    target,
    seeds: Array.from({ length: count }, (_, at) => from + at),
    parallel,
    signal: ending.signal,
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
const sum = (verdict) => results.reduce((all, { verdicts }) => all + verdicts[verdict], 0);
const interrupted = ending.signal.aborted;
writeReport(values.json, "histories", { from, interrupted, results });
process.exitCode = sum("wrong") > 0 ? 1 : interrupted ? 130 : sum("unknown") > 0 ? 2 : 0;
await sources.close();

function positive(text, name) {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 1)
    throw new RangeError(`${name} must be a whole number from 1 on`);
  return value;
}

function show(target, { seed, entries, verdict, explanation }) {
  const command = `npm run histories -- --target ${target} --count 1 --from ${seed}`;
  console.log(`seed ${seed}: ${verdict}, ${entries.length} requests; ${command}`);
  for (const line of explanation) console.log(`  ${line}`);
  if (values.keep === undefined) return;
  mkdirSync(values.keep, { recursive: true });
  writeFileSync(join(values.keep, `${target}-${seed}.jsonl`), toJsonLines(entries));
}
