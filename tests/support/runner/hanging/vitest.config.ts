import { defineConfig } from "vitest/config";

/** For tests/support/runner/hangs.test.ts alone: these files hang on purpose. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ["*.hangs.ts"],
    setupFiles: ["../running.ts"],
    reporters: ["../hang-reporter.ts", "../summary-reporter.ts"],
    testTimeout: 100,
  },
});
