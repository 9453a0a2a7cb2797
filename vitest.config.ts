import { defineConfig } from "vitest/config";
import { sourceAliases } from "./scripts/support/sources.js";
import { LongestFirst } from "./tests/support/longest-first.js";
import { temporaryFolder } from "./tests/support/temporary-folder.js";

// For everything that tests make and start.
process.env["TMPDIR"] = temporaryFolder();

const common = {
  globalSetup: ["tests/support/postgres-setup.ts", "tests/support/pglite-setup.ts"],
  setupFiles: ["tests/support/running.ts", "tests/support/leaks.ts"],
  // A PGlite starts in a second or two, and on a machine with much else to do in a minute.
  testTimeout: 120_000,
  hookTimeout: 180_000,
  // Tests provoke these by the hundred. Those of the warnings themselves start processes of their own.
  execArgv: ["--disable-warning=LeaseholdWarning"],
};
const ALONE = [
  // It measures the heap, from which what other files left behind would be released meanwhile.
  "packages/leasehold-server/src/http/native/waiting-bodies.test.ts",
  // It looks at globals that another file's server would replace.
  "packages/leasehold-server/src/http/node.test.ts",
  // It replaces a module.
  "packages/leasehold-server/src/cli/held-command.test.ts",
  // Promises take several times as long where another file has installed hooks that watch them.
  "verification/model/model.test.ts",
];

export default defineConfig({
  resolve: { alias: sourceAliases() },
  test: {
    reporters: [
      "default",
      "./tests/support/slow-reporter.ts",
      "./tests/support/hang-reporter.ts",
      "./tests/support/summary-reporter.ts",
    ],
    // The tests spend much of their time waiting for leases to expire and processes to end. With more than this, on two
    // processors, the servers that they start are too slow for the deadlines of their clients.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    coverage: { include: ["packages/*/src/**/*.ts"], exclude: ["**/*.test.ts"] },
    projects: [
      {
        extends: true,
        test: {
          ...common,
          name: "shared",
          include: ["{packages,apps,verification,tests}/**/*.test.ts"],
          // The templates have tests for Node's own runner.
          exclude: [...ALONE, "**/node_modules/**", "**/dist/**", "**/templates/**"],
          // They share what they import: to load it for each file anew took a quarter of the time.
          isolate: false,
        },
      },
      { extends: true, test: { ...common, name: "alone", include: ALONE } },
    ],
  },
});
