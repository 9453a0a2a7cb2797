// Sends a server bad requests: cases made from its own OpenAPI document, valid and spoilt, and bytes over
// raw sockets, while a well-behaved client is served. The server must not answer 5xx except as documented
// (501, 503), deviate from the document, reveal internals, crash or leak.
//
//   npm run verify -- fuzz --schema 200000 --raw 50000     on memory, from a seed that it prints
//   npm run verify -- fuzz --seed 7 --store pglite:        or postgres://..., a database of its own
//   npm run verify -- fuzz --seed 7 --only schema:1234     this case alone, as a failing one is printed
//   npm run verify -- fuzz --json                          the figures for machines
//
// Ends with 1 if anything was found.
import { randomInt } from "node:crypto";
import { openSources } from "../../scripts/support/sources.js";
import { argumentsOf } from "../support/arguments.js";

const { values } = argumentsOf(import.meta.url, {
  options: {
    schema: { type: "string", default: "20000" },
    raw: { type: "string", default: "5000" },
    seed: { type: "string", default: `${randomInt(2 ** 31)}` },
    store: { type: "string", default: "memory:" },
    only: { type: "string" },
    json: { type: "boolean", default: false },
    // The process that is fuzzed is this script too.
    serve: { type: "boolean", default: false },
  },
});

const sources = await openSources();

if (values.serve) {
  const { serveFuzz } = await sources.load("/verification/fuzz/server.ts");
  serveFuzz();
  process.once("disconnect", () => sources.close());
} else {
  try {
    await main();
  } finally {
    await sources.close();
  }
}

async function main() {
  const { runFuzz } = await sources.load("/verification/fuzz/campaign.ts");
  const { progressLine } = await sources.load("/packages/leasehold-server/src/cli/progress.ts");
  const { only, store, json } = values;
  const [schema, raw, seed] = [values.schema, values.raw, values.seed].map(Number);
  const say = (text) => (json ? console.error(text) : console.log(text));
  say(`seed ${seed}, ${store}`);
  let lastMs = 0;
  const result = await runFuzz({
    schema,
    raw,
    seed,
    store,
    only,
    onProgress(done, total) {
      if (!process.stderr.isTTY || (performance.now() - lastMs < 100 && done < total)) return;
      lastMs = performance.now();
      process.stderr.write(progressLine(done, total, "cases"));
      if (done === total) process.stderr.write("\n");
    },
    onFinding({ cases, faults, request }) {
      const replay = cases.map(
        (each) => `npm run verify -- fuzz --seed ${seed} --store ${store} --only ${each}`,
      );
      say(["", ...replay, ...faults.map((each) => `  ${each}`), request ?? ""].join("\n"));
    },
  });
  const { findings, leaks, good, seconds, statuses, before, middle, after } = result;
  if (json) console.log(JSON.stringify({ seed, store, ...result }));
  else {
    const perSecond = Math.round((result.schema + result.raw) / seconds);
    const heap = ({ heap }) => `${(heap / 2 ** 20).toFixed(1)} MiB`;
    console.log(
      `${result.schema} schema cases (${result.overHttp} over HTTP) and ${result.raw} raw ones in ${seconds.toFixed(1)} s, ${perSecond} per second: ${findings} findings`,
    );
    console.log("answers:", statuses);
    console.log(
      `meanwhile ${good.requests} good requests, ${good.faults.length} not served, the slowest in ${good.slowestMs} ms`,
    );
    for (const fault of good.faults) console.log(`  ${fault}`);
    console.log(
      `heap ${heap(before)} before, ${heap(middle)} after half, ${heap(after)} after all; timers ${before.timers}, ${after.timers}; handles ${before.handles}, ${after.handles}`,
    );
    for (const leak of leaks) console.log(`  left behind: ${leak}`);
  }
  process.exitCode = findings + leaks.length + good.faults.length > 0 ? 1 : 0;
}
