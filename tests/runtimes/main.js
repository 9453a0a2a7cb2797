// Tries the packed packages on the runtimes, compilers, bundlers and test runners of tests/runtimes, and prints what works.
//
//   npm ci --ignore-scripts --prefix tests/runtimes     once before
//   node tests/runtimes/main.js                          everything, in some minutes
//   node tests/runtimes/main.js --only deno              the rows with that in their name
//   --json    the results, one JSON object a line
//   --page    the table of packages/leasehold/README.md, without a run
//
// A row that cannot work says why, and the table shows it. Ends with 1 if a row is otherwise than it says, with 130 at
// Ctrl-C, when it has ended what it started.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openSources } from "../../scripts/support/sources.js";
import { argumentsOf } from "../../verification/support/arguments.js";
import { INTERRUPTED, interruption } from "../../verification/support/interrupt.js";
import { progressBar } from "../../verification/support/progress.js";

const { values } = argumentsOf(import.meta.url, {
  options: {
    only: { type: "string" },
    json: { type: "boolean", default: false },
    page: { type: "boolean", default: false },
  },
});

const sources = await openSources();
const load = (/** @type {string} */ path) => sources.load(`/tests/${path}.ts`);
const { chosen, ROWS, tryRows } = await load("runtimes/rows");
const { whereItRuns } = await load("runtimes/page");
const { notInstalled, Site } = await load("runtimes/site");
const { isGreen } = await load("runtimes/row");
const { tableOf } = await load("runtimes/table");
const { startPostgres } = await load("support/postgres-engine");
const { startRedis } = await load("support/redis-engine");
const { endAll } = await load("support/processes");

/** @returns {Promise<number>} the exit code */
async function main() {
  if (values.page) {
    console.log(whereItRuns(ROWS));
    return 0;
  }
  if (notInstalled !== null) throw new Error(notInstalled);
  const rows = chosen(values.only);
  const folder = await mkdtemp(join(tmpdir(), "leasehold-runtimes-"));
  /** @type {{ remove(): Promise<void> }[]} */
  const started = [];
  const keep = (/** @type {any} */ server) => {
    started.push(server);
    return server.url;
  };
  const site = new Site(folder, {
    postgres: async () => keep(await startPostgres()),
    redis: async () => keep(await startRedis()),
  });
  const stopped = interruption();
  const bar = progressBar(rows.length, !values.json);
  stopped.addEventListener("abort", () => {
    bar.clear();
    console.error("stopped; ending what was started");
    void endAll();
  });

  const beganMs = performance.now();
  let done = 0;
  try {
    const results = await tryRows(rows, site, stopped, {
      onStart: (/** @type {{ name: string }} */ { name }) => bar.draw(done, name),
      onResult(/** @type {{ name: string, verdict: string }} */ result) {
        done += 1;
        const { name, verdict } = result;
        if (values.json) console.log(JSON.stringify(result));
        else if (!bar.isShown) console.error(`${done}/${rows.length} ${name}: ${verdict}`);
      },
    });
    bar.clear();
    if (!values.json && results.length > 0) {
      console.log(tableOf(results));
      console.log(
        `\n${results.length} rows in ${Math.round((performance.now() - beganMs) / 1e3)} s`,
      );
    }
    if (stopped.aborted) return INTERRUPTED;
    return isGreen(results, rows.length) ? 0 : 1;
  } finally {
    await endAll();
    for (const server of started) await server.remove();
    await rm(folder, { recursive: true, force: true });
  }
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  await sources.close();
}
