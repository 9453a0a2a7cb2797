// Runs the tests of PostgreSQL on several of its major versions, and prints a table.
//
//   node scripts/test-postgres.js           13 to 18
//   node scripts/test-postgres.js 13 16     some of them
//
// Installs the servers into tests/postgres first, some 350 MB. Ends with 1 if a test failed.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const folder = fileURLToPath(new URL("../tests/postgres", import.meta.url));
/** Part of the paths of all tests that need a server. */
const TESTS = ["postgres"];

const { dependencies } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
const known = Object.keys(dependencies).map((name) => name.replace("postgres-", ""));
const wanted = process.argv.length > 2 ? process.argv.slice(2) : known;
for (const major of wanted) {
  if (known.includes(major)) continue;
  console.error(`unknown version ${major}: use ${known.join(", ")}`);
  process.exit(1);
}
if (!existsSync(`${folder}/node_modules`)) {
  const install = ["ci", "--ignore-scripts", "--no-audit", "--prefix", folder];
  if (spawnSync("npm", install, { stdio: "inherit" }).status !== 0) process.exit(1);
}

/** @type {{ version: string, result: string }[]} */
const rows = [];
let failed = false;
for (const major of wanted) {
  const { stdout, status, signal } = spawnSync("npx", ["vitest", "run", ...TESTS], {
    cwd: root,
    env: { ...process.env, LEASEHOLD_TEST_POSTGRES: major },
    stdio: ["ignore", "pipe", "inherit"],
    encoding: "utf8",
    maxBuffer: 1_000_000_000,
  });
  if (signal) process.exit(130);
  if (status !== 0) console.error(stdout);
  failed ||= status !== 0;
  rows.push({ version: `PostgreSQL ${major}`, result: stdout.trim().split("\n").at(-1) ?? "" });
  console.error(`PostgreSQL ${major}: ${rows.at(-1)?.result}`);
}
console.table(rows);
process.exit(failed ? 1 : 0);
