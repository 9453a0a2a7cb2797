import { defineConfig } from "vitest/config";

const common = {
  globalSetup: ["test/support/postgres-setup.ts", "test/support/pglite-setup.ts"],
  setupFiles: ["test/support/leaks.ts"],
  // A PGlite starts in a second or two, and on a machine with much else to do in a minute.
  testTimeout: 120_000,
  hookTimeout: 180_000,
};
/** It looks at globals that another file's server would replace. */
const ALONE = "src/server/node.test.ts";
/** Many files in each that import the same: loading it for each file anew takes seconds. */
const SHARING = ["test/conformance/*.test.ts", "test/ops/*.test.ts", "test/web/*.test.ts"];

export default defineConfig({
  test: {
    reporters: ["default", "./test/support/summary-reporter.ts"],
    // Most of the time is spent waiting for leases to run out and processes to end, not computing.
    maxWorkers: 4,
    coverage: { include: ["src/**/*.ts"], exclude: ["**/*.test.ts"] },
    projects: [
      {
        test: {
          ...common,
          name: "units",
          include: ["src/**/*.test.ts", "web/src/**/*.test.ts"],
          exclude: [ALONE],
          // They share what they import: to load it for each file anew took a quarter of the time.
          isolate: false,
        },
      },
      { test: { ...common, name: "shared", include: SHARING, isolate: false } },
      {
        test: {
          ...common,
          name: "whole",
          include: ["test/**/*.test.ts", ALONE],
          exclude: SHARING,
        },
      },
    ],
  },
});
