// Plants one bug after the other in a copy of the project and shows which check catches it. A bug that
// nothing catches is a check that is missing: the command then fails.
//
//   node scripts/planted-bugs.js              all of them
//   node scripts/planted-bugs.js NAME ...     some
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { stripVTControlCharacters } from "node:util";

const root = fileURLToPath(new URL("..", import.meta.url));
const SEEDS = 400;

const simulated = (scenario) => ({
  what: `simulation, ${scenario}`,
  command: [
    "node",
    ["dist/cli/main.js", "simulate", "--seeds", SEEDS, "--scenario", scenario, "--json"],
  ],
});
const tested = (path, name) => ({
  what: `${path}${name ? ` (${name})` : ""}`,
  command: ["npx", ["vitest", "run", path, ...(name ? ["-t", name] : [])]],
});

// Each replaces exactly one place.
const BUGS = [
  {
    name: "expiry-by-less-or-equal",
    file: "src/lease/rules.ts",
    find: 'if (nowMs >= record.expiresAtMs) return lost("expired");',
    by: 'if (nowMs > record.expiresAtMs) return lost("expired");',
    check: tested("src/lease/rules.test.ts"),
  },
  {
    name: "now-before-the-lock",
    file: "src/stores/postgres/lease-sql.ts",
    find: "      FOR NO KEY UPDATE OF l SKIP LOCKED\n",
    by: "      FOR NO KEY UPDATE OF l\n",
    check: tested("src/stores/postgres/store.test.ts"),
  },
  {
    name: "deadline-from-receipt",
    file: "src/lease/acquisition.ts",
    find: "const trust = trustFrom(sent, outcome.remainingMs, options);",
    by: "Object.assign(sent, instant(clock));\n          const trust = trustFrom(sent, outcome.remainingMs, options);",
    check: simulated("leases"),
  },
  {
    name: "release-by-holder",
    file: "src/lease/rules.ts",
    find: 'if (record?.leaseId !== request.leaseId) return { record, outcome: { status: "notHeld" } };',
    by: 'if (!record) return { record, outcome: { status: "notHeld" } };',
    check: simulated("leases"),
  },
  {
    name: "token-reset",
    file: "src/lease/rules.ts",
    find: "const token = Math.max(last + 1, floor + 1, clock);",
    by: "const token = Math.max(floor + 1, clock, last % 3);",
    check: simulated("leases"),
  },
  {
    name: "retry-mints-a-new-token",
    file: "src/lease/rules.ts",
    find: "return { record, outcome: acquired(record, nowMs) };\n  }\n  if (record && excludes",
    by: "const again = { ...record, token: token(record.token) };\n    return { record: again, outcome: acquired(again, nowMs) };\n  }\n  if (record && excludes",
    check: simulated("leases"),
  },
  {
    name: "completion-without-token",
    file: "src/tasks/rules.ts",
    find: '  const grant = liveGrant(record, request, nowMs);\n  if ("reason" in grant) return { record, outcome: grant };\n  const output',
    by: "  const grant = record as never as Parameters<typeof ended>[0];\n  const output",
    check: simulated("tasks"),
  },
  {
    name: "renewal-revives",
    file: "src/lease/rules.ts",
    find: 'if (nowMs >= record.expiresAtMs) return lost("expired");',
    by: "",
    check: simulated("leases"),
  },
  {
    name: "revoke-undone-by-a-retry",
    file: "src/lease/rules.ts",
    find: 'if (!isLive(record, nowMs)) return { record, outcome: { status: "ended" } };',
    by: 'if (!isLive(record, nowMs)) return acquire({ ...record, leaseId: "", ended: "released" }, request, nowMs, token);',
    check: simulated("leases"),
  },
  {
    name: "no-look-at-trust-after-waiting",
    file: "src/lease/acquisition.ts",
    find: "if (trustLeftMs(trust, clock) > 0) {",
    by: "if (trust) {",
    check: simulated("leases"),
  },
  {
    name: "fence-reads-then-writes",
    file: "src/fence/sql.ts",
    find: "    WHERE f.token <= excluded.token;\n  IF NOT FOUND",
    by: "    WHERE (SELECT g.token FROM leasehold.fence g WHERE g.namespace = f.namespace AND g.resource = f.resource) <= excluded.token;\n  IF NOT FOUND",
    check: tested("src/fence"),
  },
  {
    name: "check-alive-by-timer-only",
    file: "src/lease/held-lease.ts",
    find: 'if (this.#state !== "held") return false;\n    if (trustLeftMs(this.#trust, this.#env.clock) > 0) return true;',
    by: 'if (this.#state !== "held") return false;\n    if (this.#state === "held") return true;',
    check: simulated("leases"),
  },
];

function copyProject() {
  const folder = mkdtempSync(join(tmpdir(), "leasehold-bug-"));
  for (const name of ["src", "test", "scripts", "docs", "examples"]) {
    cpSync(join(root, name), join(folder, name), { recursive: true });
  }
  const configs = [
    "package.json",
    "tsconfig.json",
    "tsconfig.build.json",
    "vitest.config.ts",
    "README.md",
  ];
  for (const name of configs) cpSync(join(root, name), join(folder, name));
  symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
  return folder;
}

function run(folder, [program, args]) {
  return spawnSync(program, args.map(String), {
    cwd: folder,
    encoding: "utf8",
    maxBuffer: 2 ** 28,
  });
}

/** Which property or test noticed it; null if none did. */
function caughtBy(folder, { command }) {
  const { status, stdout, stderr } = run(folder, command);
  if (status === 0) return null;
  if (command[0] === "node") {
    const { failures } = JSON.parse(stdout);
    const [first] = failures;
    return (
      first &&
      `seed ${first.seed}: ${first.violation.property} (${failures.length} of ${SEEDS} seeds)`
    );
  }
  const failed = /FAIL\s+(.*)/.exec(stripVTControlCharacters(`${stdout}${stderr}`))?.[1];
  return failed ?? null;
}

let missed = 0;
const wanted = process.argv.slice(2);
for (const bug of BUGS.filter(({ name }) => wanted.length === 0 || wanted.includes(name))) {
  const folder = copyProject();
  try {
    const path = join(folder, bug.file);
    const source = readFileSync(path, "utf8");
    const parts = source.split(bug.find);
    if (parts.length !== 2)
      throw new Error(`${bug.name}: found ${parts.length - 1} times in ${bug.file}`);
    writeFileSync(path, parts.join(bug.by));
    const built = run(folder, ["node", ["scripts/build.js"]]);
    if (built.status !== 0) throw new Error(`${bug.name} does not compile: ${built.stdout}`);
    const by = caughtBy(folder, bug.check);
    if (by === null) missed += 1;
    process.stdout.write(
      `${by === null ? "MISSED" : "caught"}  ${bug.name.padEnd(32)} ${bug.check.what}: ${by}\n`,
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
process.stdout.write(`${missed} missed\n`);
process.exitCode = missed > 0 ? 1 : 0;
