import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "web/src/**/*.test.ts", "test/**/*.test.ts"],
    reporters: ["default", "./test/support/summary-reporter.ts"],
    globalSetup: ["test/support/postgres-setup.ts", "test/support/pglite-setup.ts"],
    setupFiles: ["test/support/leaks.ts"],
    // Most of the time is spent waiting for leases to run out and processes to end, not computing.
    maxWorkers: 4,
    // A PGlite starts in a second or two, and on a machine with much else to do in a minute.
    testTimeout: 120_000,
    hookTimeout: 180_000,
    coverage: { include: ["src/**/*.ts"], exclude: ["**/*.test.ts"] },
  },
});
