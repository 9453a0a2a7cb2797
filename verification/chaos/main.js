// Chaos on real servers: holders are killed, stopped and cut off, clocks run wrong, engines fail, while
// what they protect is written to behind a fence and without one.
//
//   npm run verify -- chaos --minutes 6                              each store, one after the other
//   npm run verify -- chaos --minutes 1 --stores redis,etcd          of postgres, redis, etcd, zookeeper, http, consul
//   npm run verify -- chaos --minutes 1 --stores http --seed 7       the same plan of faults again
//   npm run verify -- chaos --minutes 6 --json chaos.json            the whole report
//   npm run verify -- chaos --scenario standby-promotion             what a failover or a backup costs
//   npm run verify -- chaos --scenario all --json scenarios.json     ... all of them
//
// Ends with 1 if a claim does not hold, or too little happened to prove it. Ctrl-C ends it early, and
// judges what was seen by then.
import { openSources } from "../../scripts/support/sources.js";
import { argumentsOf } from "../support/arguments.js";
import { interruption } from "../support/interrupt.js";
import { writeReport } from "../support/provenance.js";

const { values } = argumentsOf(import.meta.url, {
  options: {
    minutes: { type: "string", default: "1" },
    stores: { type: "string" },
    seed: { type: "string" },
    json: { type: "string" },
    scenario: { type: "string" },
  },
});

const isTerminal = process.stderr.isTTY;

const ending = interruption();
const sources = await openSources();
try {
  const { scenario } = values;
  await (scenario === undefined ? chaos(sources, ending) : scenarios(sources, scenario, ending));
} finally {
  await sources.close();
}

async function chaos({ load }, signal) {
  const { STORES } = await load("/verification/chaos/engines/store-names.ts");
  const { runCampaign } = await load("/verification/chaos/engines/campaign.ts");
  const { progressLine } = await load("/packages/leasehold-server/src/cli/progress.ts");
  const stores = values.stores?.split(",") ?? STORES;
  const unknown = stores.find((store) => !STORES.includes(store));
  if (unknown !== undefined)
    throw new Error(`--stores: ${unknown} is none of ${STORES.join(", ")}`);
  const minutes = Number(values.minutes);
  if (!(minutes > 0)) throw new Error("--minutes must be a number above 0");
  const seed = Number(values.seed ?? Math.floor(Math.random() * 2 ** 31));
  console.log(`chaos on ${stores.join(", ")}, ${minutes} min each, seed ${seed}`);
  const begin = performance.now();
  const totalSeconds = Math.round(stores.length * minutes * 60);
  const report = await runCampaign({
    stores,
    minutes,
    seed,
    signal,
    onFault(store, kind) {
      if (!isTerminal) return;
      const seconds = Math.round((performance.now() - begin) / 1_000);
      const line = progressLine(
        Math.min(seconds, totalSeconds),
        totalSeconds,
        `s ${store}: ${kind}`,
      );
      process.stderr.write(`${line}\u001b[K`);
    },
    onStore(one) {
      if (isTerminal) process.stderr.write("\r\u001b[K");
      print(one);
    },
  });
  for (const [store, why] of Object.entries(report.missing)) console.log(`no ${store}: ${why}`);
  for (const [store, why] of Object.entries(report.failed))
    console.log(`${store} broke off: ${why}`);
  const { kinds, expiries, staleRefused, pausesPastTtl, breaches } = report;
  const count = Object.values(report.faults).reduce((sum, one) => sum + one, 0);
  console.log(
    `${count} faults of ${kinds} kinds, ${expiries} leases expired, ${pausesPastTtl} pauses longer than ` +
      `a ttl; ${staleRefused} stale writes refused by the fence, ${report.fencedViolations} taken by it, ` +
      `${report.unfencedViolations} taken without one; ${breaches} breaches`,
  );
  console.log(report.holds ? "all claims hold" : "FAILS");
  const seconds = Math.round((performance.now() - begin) / 1_000);
  writeReport(values.json, "chaos", { seconds, interrupted: signal.aborted, ...report });
  process.exitCode = report.holds ? 0 : 1;
}

function print(one) {
  const { store, version, seconds, takeovers, herd, stallsMs } = one;
  console.log(`\n${store} (${version}), ${seconds} s`);
  for (const [kind, count] of Object.entries(one.faults)) {
    console.log(`  ${String(count).padStart(4)}  ${kind}`);
  }
  for (const [kind, why] of Object.entries(one.skipped)) console.log(`  skipped: ${kind}, ${why}`);
  const { count, p50, p99, max, bound, behindDeadWaiters, unsteady } = takeovers;
  const epsilon = `${one.lifeMs} + ${one.epsilonMs}`;
  console.log(
    `  ${one.grants} grants in ${one.histories} histories, all checked; ${one.expiries} expired; ${one.pausesPastTtl} pauses longer than ${one.ttlMs} ms\n` +
      `  ${one.writes} writes, ${one.staleRefused} stale ones refused by the fence, ` +
      `${one.unfencedViolations} taken without one\n` +
      `  ${count} takeovers in ${p50} ms (p50), ${p99} (p99), ${max} (max), ` +
      `of ${epsilon} = ${bound} allowed; ${behindDeadWaiters} longer, behind waiters that had died; ` +
      `${unsteady} losses while the engine elected\n` +
      `  ${herd.served} of a herd of ${herd.waiters} served, ${herd.gaveUp} gave up; ` +
      `each resource granted anew ${one.livenessMs} ms after the faults\n` +
      `  ${one.breaches.length} breaches, ${one.breachesOfWrongClocks} under clocks beyond their drift; ` +
      `this process stood still for ${stallsMs.max} ms at most`,
  );
  for (const [what, number] of Object.entries(one.beside)) console.log(`  ${what}: ${number}`);
  for (const text of one.complaints.slice(0, 20)) console.log(`  WRONG: ${text}`);
  if (one.complaints.length > 20) console.log(`  ... and ${one.complaints.length - 20} more`);
  for (const text of one.tooRare) console.log(`  too rare to prove anything: ${text}`);
}

async function scenarios({ load }, name, signal) {
  const { SCENARIOS } = await load("/verification/chaos/scenarios/index.ts");
  const chosen = SCENARIOS.filter((one) => name === "all" || one.name === name);
  if (chosen.length === 0) {
    const names = SCENARIOS.map((one) => one.name).join(", ");
    throw new Error(`--scenario: ${name} is none of ${names}, all`);
  }
  const { endAll } = await load("/tests/support/processes/processes.ts");
  const begin = performance.now();
  const results = [];
  for (const scenario of chosen) {
    if (signal.aborted) break;
    const missing = await scenario.missing();
    console.log(`\n${scenario.name}: ${scenario.describe}`);
    if (missing !== null) {
      console.log(`  skipped: ${missing}`);
      results.push({ name: scenario.name, missing, holds: false });
      continue;
    }
    const result = await scenario
      .run((line) => console.log(`  ${line}`))
      // The others are tried, and reported, all the same.
      .catch((error) => ({ differs: [`broke off: ${error?.stack ?? error}`] }))
      .finally(() => endAll());
    const holds = result.differs.length === 0;
    for (const text of result.differs) console.log(`  WRONG: ${text}`);
    console.log(holds ? "  as promised" : "  FAILS");
    results.push({ name: scenario.name, holds, ...result });
  }
  const holds = results.length === chosen.length && results.every((one) => one.holds);
  const seconds = Math.round((performance.now() - begin) / 1_000);
  writeReport(values.json, "scenarios", { seconds, scenarios: results, holds });
  process.exitCode = holds ? 0 : 1;
}
