// Which branches of the SQL of PostgreSQL and of the Lua of Redis no test takes. In a copy of the project each
// operand of each condition is wrapped in a probe, which notes in the log of the engine whether it was true and
// whether it was false. Prints those that were only one of both.
//
//   npm run verify -- branches                  all, in half an hour
//   npm run verify -- branches --engine redis   one engine
//   npm run verify -- branches FILE ...         these tests only
//   npm run verify -- branches --into FOLDER    goes on with what is in the folder, such as after an interrupt
//   npm run verify -- branches --report         only prints what is in the folder
//
// A test that compares the texts of statements fails in the copy; that changes nothing of what it has taken.
import { appendFileSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Copy } from "../planted-bugs/copy.js";
import { argumentsOf } from "../support/arguments.js";
import { branches } from "./report.js";

const STORES = "packages/leasehold/src/stores";
const RECORD = "../../../../../verification/branches/record.js";
/** As planted bugs: what is replaced stands in one place. */
const PROBES = [
  {
    file: `${STORES}/redis/scripts-call.ts`,
    find: "  const [node] = servers.nodes();\n",
    by: `  texts = (await import("${RECORD}")).recordedLua(texts);\n  const [node] = servers.nodes();\n`,
  },
  {
    file: "packages/leasehold/src/fence/redis.ts",
    find: "        guarded(script),\n",
    by: '        (await import("../../../../verification/branches/record.js")).recordedLua({ "guarded-write": guarded(script) })["guarded-write"],\n',
  },
  {
    file: "tests/support/engines/redis-engine.ts",
    find: 'save: "", ...settings',
    by: 'save: "", logfile: `${globalThis.process.env.BRANCHES}/redis-${port}.log`, ...settings',
  },
  {
    file: `${STORES}/postgres/connection-pool.ts`,
    find: "  const named = name === undefined ? {} : { name };\n",
    by: `  text = (await import("${RECORD}")).recordedSql(text);\n  const named = name === undefined ? {} : { name };\n`,
  },
  {
    file: "tests/support/engines/postgres-engine.ts",
    find: "      log = `${log}${chunk}`.slice(-4_000);\n",
    by: "      log = `${log}${chunk}`.slice(-4_000);\n      noted(chunk);\n",
  },
  {
    // Each line once: a run writes gigabytes otherwise.
    file: "tests/support/engines/postgres-engine.ts",
    find: "export interface PostgresServer {\n",
    by: `const lines = new Set();
let rest = "";
function noted(chunk) {
  const found = (rest + chunk).split("\\n");
  rest = found.pop();
  for (const line of found) {
    const [probe] = /PROBE.*/.exec(line) ?? [];
    if (!probe || lines.has(probe)) continue;
    lines.add(probe);
    process.getBuiltinModule("node:fs").appendFileSync(
      \`\${process.env.BRANCHES}/postgres-\${process.pid}.log\`, probe + "\\n");
  }
}
export interface PostgresServer {
`,
  },
  {
    file: "tests/support/engines/postgres-engine.ts",
    find: "    max_connections: 200,\n",
    by: '    max_connections: 200,\n    log_error_verbosity: "terse",\n',
  },
  {
    // Databases that are created later have the function too. A standby has it from its primary.
    file: "tests/support/engines/postgres-engine.ts",
    find: "        await client.end();\n        return;\n",
    by: `        await client.end();
        const { PROBE } = await import("../../verification/branches/sql.js");
        for (const name of ["postgres", "template1"]) {
          const own = new pg.Client({ connectionString: url.replace(/postgres$/, name) });
          await own.connect();
          await own.query(PROBE).catch(() => {});
          await own.end();
        }
        return;
`,
  },
].map((probe) => ({ name: "a probe", ...probe }));

/** Those that run an engine in this process, so that the sources of the copy send what it runs. */
const TESTS = {
  redis: [
    "tests/conformance/redis.test.ts",
    `${STORES}/redis/store.test.ts`,
    "packages/leasehold/src/fence/redis.test.ts",
    "tests/engines/redis-queue.test.ts",
    "tests/engines/redis-cluster.test.ts",
    "tests/interop/redis-interop.test.ts",
    "tests/interop/redis-formats.test.ts",
    "tests/interop/redlock-compat.test.ts",
    "tests/faults/redis-faults.test.ts",
    "tests/faults/clock-faults.test.ts",
    "verification/histories/histories-engines.test.ts",
  ],
  postgres: [
    "tests/conformance/postgres.test.ts",
    "tests/conformance/tasks-conformance.test.ts",
    "tests/conformance/history-conformance.test.ts",
    ...["store", "index", "migrate", "rights", "schema", "watch", "connection-pool"].map(
      (name) => `${STORES}/postgres/${name}.test.ts`,
    ),
    "tests/engines/leases-postgres.test.ts",
    "tests/engines/queries-postgres.test.ts",
    "tests/engines/waiters-postgres.test.ts",
    "tests/engines/tasks-postgres.test.ts",
    "tests/engines/task-leases-postgres.test.ts",
    "tests/engines/postgres-faults.test.ts",
    "tests/faults/clock-faults.test.ts",
    "tests/operations/keys.test.ts",
    "tests/operations/audit.test.ts",
    "tests/operations/limits.test.ts",
    "tests/operations/operator.test.ts",
    "tests/operations/paused-resources.test.ts",
    "tests/operations/tenants.test.ts",
    "verification/histories/histories.test.ts",
  ],
};
/** Of one file, on a machine with much else to do. */
const TIMEOUT_MS = 900_000;

const { values, positionals } = argumentsOf(import.meta.url, {
  allowPositionals: true,
  options: {
    engine: { type: "string", multiple: true, default: ["redis", "postgres"] },
    into: { type: "string", default: join(tmpdir(), "leasehold-branches") },
    report: { type: "boolean", default: false },
  },
});
const folder = resolve(values.into);
mkdirSync(folder, { recursive: true });
process.env["BRANCHES"] = folder;
const donePath = join(folder, "done");

if (!values.report) await runTests();
report();

async function runTests() {
  const done = existsSync(donePath) ? readFileSync(donePath, "utf8").split("\n") : [];
  const all = values.engine.flatMap((engine) => TESTS[engine] ?? []);
  const files = positionals.length > 0 ? positionals : [...new Set(all)];
  const copy = new Copy();
  process.on("exit", () => copy.removeNow());
  process.once("SIGINT", () => process.exit(130));
  const within = (probes, use) => {
    const [first, ...rest] = probes;
    return first ? copy.with(first, () => within(rest, use)) : use();
  };
  await within(PROBES, async () => {
    for (const file of files.filter((each) => !done.includes(each))) {
      const vitest = ["node_modules/vitest/vitest.mjs", "run", file, "--reporter=dot"];
      const { status, stdout } = await copy.run(vitest, TIMEOUT_MS);
      const [summary = "it came to no end"] = /^\s*Tests .*$/m.exec(stdout) ?? [];
      console.log(`${file}: ${summary.trim()}`);
      if (status !== null) appendFileSync(donePath, `${file}\n`);
    }
  });
  await copy.remove();
}

function report() {
  for (const engine of values.engine) {
    const sites = branches(folder).filter((site) => site.engine === engine);
    const wanted = sites.flatMap(({ wants }) => wants).length;
    const taken = sites.reduce((sum, { seen }) => sum + seen.size, 0);
    for (const { at, leaf, wants, seen } of sites) {
      const never = wants.filter((value) => !seen.has(value));
      if (never.length > 0) console.log(`${at}  ${leaf}: never ${never.join(" or ")}`);
    }
    console.log(`${engine}: ${taken} of ${wanted} branches taken`);
  }
}
