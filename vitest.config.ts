import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { sourceAliases } from "./scripts/support/sources.js";
import { LongestFirst } from "./tests/support/runner/longest-first.js";
import { temporaryFolder } from "./tests/support/runner/temporary-folder.js";
import { TIERS, type Tier, testsByTier } from "./tests/support/runner/tiers.js";

// For everything that tests make and start.
process.env["TMPDIR"] = temporaryFolder();

const common = {
  globalSetup: ["tests/support/engines/postgres-setup.ts", "tests/support/engines/pglite-setup.ts"],
  setupFiles: [
    "tests/support/runner/running.ts",
    "tests/support/runner/cpu-time.ts",
    "tests/support/runner/leaks.ts",
    "tests/support/runner/patience.ts",
  ],
  // A PGlite starts in a second or two, and on a machine with much else to do in a minute.
  testTimeout: 120_000,
  hookTimeout: 180_000,
  // As tests/support/runner/patience.ts for other conditions.
  expect: { poll: { timeout: 60_000 } },
  // Tests provoke these by the hundred. Those of the warnings themselves start processes of their own.
  execArgv: ["--disable-warning=LeaseholdWarning"],
};
const ALONE = [
  // It measures the heap, from which what other files left behind would be released meanwhile.
  "packages/leasehold-server/src/http/native/waiting-bodies.test.ts",
  // It looks at globals that another file's server would replace.
  "packages/leasehold-server/src/http/node.test.ts",
  // Promises take several times as long where another file has installed hooks that watch them.
  "verification/model/model.test.ts",
];

const root = fileURLToPath(new URL(".", import.meta.url));
const tests = testsByTier(root);
/**
 * A test that replaces a module runs alone, because another file may have loaded that module before. So does one that watches what
 * all code of the process uses: it would also see what an earlier file has left unfinished.
 */
const REPLACES = /vi\.mock\(|vi\.spyOn\((?:process|console|globalThis|\w+\.prototype)\b/;
const isAlone = (path: string) =>
  ALONE.includes(path) || REPLACES.test(readFileSync(join(root, path), "utf8"));

/** Where a machine that is busy for a moment may fail a test of processes, CI repeats it once, and names it. */
const REPEATED: readonly Tier[] = ["engines", "processes", "browser", "docs"];
const isCi = process.env["CI"] === "true";

/** A project for each tier, and one more for those of its tests that share nothing. */
const projects = TIERS.flatMap((tier) => {
  const retry = isCi && REPEATED.includes(tier) ? 1 : 0;
  const test = { ...common, retry, env: { TEST_TIER: tier } };
  const alone = tests[tier].filter(isAlone);
  // They share what they import: to load it for each file anew took a quarter of the time.
  const shared = { ...test, name: tier, include: tests[tier].filter((path) => !isAlone(path)) };
  return [
    { extends: true as const, test: { ...shared, isolate: false } },
    ...(alone.length === 0
      ? []
      : [{ extends: true as const, test: { ...test, name: `${tier}-alone`, include: alone } }]),
  ];
});

export default defineConfig({
  resolve: { alias: sourceAliases() },
  test: {
    reporters: [
      "default",
      "./tests/support/runner/slow-reporter.ts",
      "./tests/support/runner/hang-reporter.ts",
      "./tests/support/runner/summary-reporter.ts",
    ],
    // The tests spend much of their time waiting for leases to expire and processes to end. With more than this, on two
    // processors, the servers that they start are too slow for the deadlines of their clients.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    tags: [
      {
        name: "safety",
        description:
          "tests whose failure may be two holders, a smaller token, a lost task or a wrong history: never repeated",
        retry: 0,
        priority: 1,
      },
    ],
    coverage: { include: ["packages/*/src/**/*.ts"], exclude: ["**/*.test.ts"] },
    projects,
  },
});
