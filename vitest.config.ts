import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["src/**/*.test.ts", "test/**/*.test.ts"],
    reporters: ["default", "./test/support/summary-reporter.ts"],
    globalSetup: ["test/support/postgres-setup.ts"],
    setupFiles: ["test/support/leaks.ts"],
    // Most of the time is spent waiting for leases to run out and processes to end, not computing.
    maxWorkers: 4,
    testTimeout: 30_000,
    hookTimeout: 60_000,
    coverage: { include: ["src/**/*.ts"], exclude: ["**/*.test.ts"] },
  },
});
