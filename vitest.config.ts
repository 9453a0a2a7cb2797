import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/support/longest-first.js";

const common = {
  globalSetup: ["test/support/postgres-setup.ts", "test/support/pglite-setup.ts"],
  setupFiles: ["test/support/leaks.ts"],
  // A PGlite starts in a second or two, and on a machine with much else to do in a minute.
  testTimeout: 120_000,
  hookTimeout: 180_000,
};
/** It looks at globals that another file's server would replace. */
const ALONE = "src/server/node.test.ts";

export default defineConfig({
  test: {
    reporters: ["default", "./test/support/summary-reporter.ts"],
    // Most of the time is spent waiting for leases to run out and processes to end, not computing.
    maxWorkers: 4,
    sequence: { sequencer: LongestFirst },
    coverage: { include: ["src/**/*.ts"], exclude: ["**/*.test.ts"] },
    projects: [
      {
        test: {
          ...common,
          name: "shared",
          include: ["src/**/*.test.ts", "web/src/**/*.test.ts", "test/**/*.test.ts"],
          exclude: [ALONE],
          // They share what they import: to load it for each file anew took a quarter of the time.
          isolate: false,
        },
      },
      { test: { ...common, name: "alone", include: [ALONE] } },
    ],
  },
});
