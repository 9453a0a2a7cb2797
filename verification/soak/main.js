// Hours of load under faults on PostgreSQL: whether memory, handles, timers, listeners, connections and
// dead rows stay as they are, latency comes back when faults end, leases are kept and tasks done once.
//
//   npm run verify -- soak --hours 1                          on a PostgreSQL server of its own
//   npm run verify -- soak --hours 0.05 --seed 7              three minutes, a try
//   npm run verify -- soak --store postgres://...             a database of its own in that server
//   npm run verify -- soak --hours 1 --json soak.json         the report; the samples in soak.samples.jsonl
//   npm run verify -- soak --plot docs/images/soak.svg        also draws the samples (npm install --prefix bench)
//   npm run verify -- soak --samples soak.samples.jsonl --plot soak.svg       draws those of an earlier run
//
// Ends with 1 if a claim does not hold. Ctrl-C ends it early, and judges what was seen by then; a
// second one ends it at once, with 130.
import { appendFileSync, mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { openSources } from "../../scripts/support/sources.js";
import { argumentsOf } from "../support/arguments.js";
import { interruption } from "../support/interrupt.js";
import { writeReport } from "../support/provenance.js";

const { values } = argumentsOf(import.meta.url, {
  options: {
    hours: { type: "string", default: "1" },
    store: { type: "string" },
    json: { type: "string" },
    seed: { type: "string", default: "1" },
    plot: { type: "string" },
    samples: { type: "string" },
  },
});

if (values.samples !== undefined) {
  await plot(values.samples);
} else {
  await main();
}

async function main() {
  const hours = Number(values.hours);
  if (!(hours > 0)) throw new Error("--hours must be a number above 0");
  const sources = await openSources();
  const ending = interruption();
  const samples =
    values.json?.replace(/(\.json)?$/, ".samples.jsonl") ??
    join(mkdtempSync(join(tmpdir(), "leasehold-soak-")), "samples.jsonl");
  writeFileSync(samples, "");
  try {
    const { runSoak } = await sources.load("/verification/soak/run.ts");
    const { progressLine } = await sources.load("/packages/leasehold-server/src/cli/progress.ts");
    const seed = Number(values.seed);
    console.log(`a soak of ${hours} hours, seed ${seed}; samples in ${samples}`);
    let saidMs = 0;
    const report = await runSoak({
      hours,
      seed,
      store: values.store,
      signal: ending,
      onSample(sample, elapsedMs, { totalMs }) {
        appendFileSync(samples, `${JSON.stringify(sample)}\n`);
        const [at, of] = [elapsedMs, totalMs].map((ms) => Math.round(ms / 1_000));
        const text = `s, ${shortOf(sample)}`;
        if (process.stderr.isTTY) process.stderr.write(progressLine(Math.min(at, of), of, text));
        else if (elapsedMs - saidMs >= Math.min(60_000, totalMs / 10)) {
          saidMs = elapsedMs;
          console.log(`${at} of ${of} ${text}`);
        }
      },
    });
    if (process.stderr.isTTY) process.stderr.write("\n");
    print(report);
    writeReport(values.json, "soak", { ...report, samples: basename(samples) });
    process.exitCode = report.holds ? 0 : 1;
  } finally {
    await sources.close();
  }
  if (values.plot !== undefined) await plot(samples);
}

function shortOf({ processes, database }) {
  const heaps = Object.entries(processes).map(
    ([name, { heapUsed }]) => `${name} ${(heapUsed / 1e6).toFixed(1)} MB`,
  );
  return `${heaps.join(", ")}, ${database.connections} connections`;
}

function print({ claims, faults, losses, seconds, starvedMs, engine, cycles, holds }) {
  for (const { claim, holds: does, figure, allowed } of claims) {
    console.log(
      `${does ? "ok   " : "FAILS"} ${claim}: ${figure}${does ? "" : ` (allowed: ${allowed})`}`,
    );
  }
  const total = Object.values(faults).reduce((sum, count) => sum + count, 0);
  const failing = claims.filter((one) => !one.holds).length;
  console.log(
    `${(seconds / 60).toFixed(1)} min on ${engine}, ${cycles.length} cycles, ${total} faults, ${losses.length} leases lost, ${Math.round(starvedMs / 1_000)} s without a processor: ` +
      `${claims.length - failing} of ${claims.length} claims hold${holds ? "" : ", so it fails"}`,
  );
}

/** Heap, handles, listeners, connections and dead rows over time, one above the other. */
async function plot(path) {
  const { draw, CHART } = await import("../../bench/draw.js");
  const samples = readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  const sum = (numbers) => numbers.reduce((total, one) => total + one, 0);
  const points = samples.flatMap(({ atMs, processes, database }) => {
    const minute = (atMs - samples[0].atMs) / 60_000;
    const of = Object.entries(processes).flatMap(([name, one]) => [
      { minute, what: "heap, MB", name, value: one.heapUsed / 1e6 },
      { minute, what: "active handles and timers", name, value: sum(Object.values(one.resources)) },
      { minute, what: "listeners", name, value: sum(Object.values(one.listeners)) },
    ]);
    const tables = Object.entries(database.tables).map(([name, { dead }]) => {
      return { minute, what: "dead rows", name: `table ${name}`, value: dead };
    });
    const { connections } = database;
    const open = { minute, what: "connections", name: "database", value: connections };
    return [...of, open, ...tables.filter(({ name }) => /lease$|task$|waiter|claim/.test(name))];
  });
  const panels = [...new Set(points.map(({ what }) => what))];
  const x = { field: "minute", type: "quantitative", title: "minutes" };
  await draw(values.plot ?? "soak.svg", {
    background: CHART.background,
    vconcat: panels.map((what) => ({
      width: CHART.width,
      height: 110,
      title: what,
      mark: { type: "line", strokeWidth: 1 },
      data: { values: points.filter((point) => point.what === what) },
      encoding: {
        x,
        y: { field: "value", type: "quantitative", title: null },
        color: { field: "name", type: "nominal", title: null },
      },
    })),
    resolve: { scale: { color: "independent" } },
  });
}
