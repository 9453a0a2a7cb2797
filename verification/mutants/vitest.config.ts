/** The tests of one part, as `run.js` names them: in the sandbox, without servers. */
import { defineConfig } from "vitest/config";
import { sourceAliases } from "../../scripts/support/sources.js";

const tests = process.env["MUTANTS_TESTS"]?.split("|") ?? [];

export default defineConfig({
  resolve: { alias: sourceAliases() },
  test: {
    include: tests.filter((glob) => !glob.startsWith("!")),
    exclude: tests.filter((glob) => glob.startsWith("!")).map((glob) => glob.slice(1)),
    // Modules stay loaded from one mutant to the next.
    isolate: false,
    setupFiles: ["verification/mutants/setup.ts"],
  },
});
