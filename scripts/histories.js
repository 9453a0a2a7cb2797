// Makes histories of clients on real stores under faults, and checks every one of them.
//
//   npm run histories -- --count 200                        on PostgreSQL, from seed 1
//   npm run histories -- --count 5 --from 17 --target http  memory, postgres, http or redis
//   --parallel 4    histories at a time       --keep FOLDER   writes those that fail as JSON lines
//
// Ends with 1 if a history is wrong, 2 if one could not be judged.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { createServer } from "vite";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values } = parseArgs({
  options: {
    count: { type: "string", default: "200" },
    from: { type: "string", default: "1" },
    target: { type: "string", default: "postgres" },
    parallel: { type: "string", default: "4" },
    keep: { type: "string" },
  },
});
const [count, from, parallel] = [values.count, values.from, values.parallel].map(Number);

// What makes histories is TypeScript, beside the tests; vite compiles it on the way.
const vite = await createServer({
  root,
  configFile: false,
  appType: "custom",
  logLevel: "error",
  server: { middlewareMode: true, watch: null, ws: false },
  optimizeDeps: { noDiscovery: true },
});
const { runCampaign } = await vite.ssrLoadModule("/test/support/history-campaign.ts");
const { toJsonLines } = await vite.ssrLoadModule("/src/testing/index.ts");

const begin = performance.now();
const total = await runCampaign({
  target: values.target,
  seeds: Array.from({ length: count }, (_, at) => from + at),
  parallel,
  onResult(result) {
    const { seed, entries, verdict, explanation } = result;
    if (verdict === "right") return;
    const command = `npm run histories -- --target ${values.target} --count 1 --from ${seed}`;
    console.log(`seed ${seed}: ${verdict}, ${entries.length} requests; ${command}`);
    for (const line of explanation) console.log(`  ${line}`);
    if (values.keep === undefined) return;
    mkdirSync(values.keep, { recursive: true });
    writeFileSync(join(values.keep, `${values.target}-${seed}.jsonl`), toJsonLines(entries));
  },
});
const seconds = (performance.now() - begin) / 1_000;
console.log(`${count} histories on ${values.target} in ${seconds.toFixed(0)} s:`, total.verdicts);
console.log(`${total.requests} requests, answers:`, total.answers);
console.log("on the way:", total.faults);
process.exitCode = total.verdicts.wrong > 0 ? 1 : total.verdicts.unknown > 0 ? 2 : 0;
await vite.close();
