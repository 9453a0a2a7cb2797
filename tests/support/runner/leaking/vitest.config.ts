import { defineConfig } from "vitest/config";

/** For tests/support/runner/leaks.test.ts alone: these files fail on purpose. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ["*.leaks.ts"],
    setupFiles: ["../leaks.ts"],
    reporters: ["json"],
    env: { LEAKS_SETTLED_WITHIN_MS: "2000" },
  },
});
