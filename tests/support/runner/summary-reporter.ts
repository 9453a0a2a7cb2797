import type { Reporter, SerializedError, TestModule } from "vitest/node";

/** How many files are named. */
const SLOWEST = 5;
const MOST_OF_REASON = 300;

/**
 * Ends a run with its seconds, its slowest files, and `N passed, N failed, N skipped` alone on its line, for programs that
 * read logs. A file that does not load, a hook that fails and an error that no test caught count as failed, so `0 failed`
 * means that the run succeeded. The lines before it say why tests were skipped, what failed (`failed: NAME: REASON`), and
 * what passed only when it was repeated (`flaky: NAME: REASON`).
 */
export default class SummaryReporter implements Reporter {
  #beganMs = 0;

  onTestRunStart(): void {
    this.#beganMs = performance.now();
  }

  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const counts = { passed: 0, failed: unhandled.length, skipped: 0 };
    const reasons = new Map<string, number>();
    for (const module of modules) {
      const before = counts.failed;
      for (const test of module.children.allTests()) {
        const result = test.result();
        if (test.diagnostic()?.flaky) print("flaky", module, test.fullName, result.errors);
        // One that never ended, because the run was stopped, did not pass. Those of a file that is skipped as a whole
        // never begin.
        const never = module.state() === "skipped" ? "skipped" : "failed";
        counts[result.state === "pending" ? never : result.state]++;
        if (result.state === "failed") print("failed", module, test.fullName, result.errors);
        if (result.state !== "skipped" || result.note === undefined) continue;
        reasons.set(result.note, (reasons.get(result.note) ?? 0) + 1);
      }
      for (const suite of [module, ...module.children.allSuites()]) {
        if (suite.errors().length === 0) continue;
        const name = suite.type === "suite" ? suite.fullName : "the file";
        print("failed", module, name, suite.errors());
      }
      if (module.state() === "failed" && counts.failed === before) counts.failed++;
    }
    for (const [reason, count] of reasons) process.stdout.write(`skipped ${count}: ${reason}\n`);
    for (const { message } of unhandled)
      process.stdout.write(`failed: outside of tests: ${firstLine(message)}\n`);
    const seconds = Math.round((performance.now() - this.#beganMs) / 1_000);
    process.stdout.write(`${modules.length} files in ${seconds} s. The most CPU time:\n`);
    for (const { name, cpuMs } of slowestOf(modules)) {
      process.stdout.write(`${(cpuMs / 1_000).toFixed(1).padStart(7)} s  ${name}\n`);
    }
    const { passed, failed, skipped } = counts;
    process.stdout.write(`${passed} passed, ${failed} failed, ${skipped} skipped\n`);
  }
}

function print(
  what: "failed" | "flaky",
  module: TestModule,
  name: string,
  errors: readonly SerializedError[] = [],
): void {
  const reason = firstLine(errors[0]?.message ?? "");
  process.stdout.write(`${what}: ${module.relativeModuleId} > ${name}: ${reason}\n`);
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0]?.slice(0, MOST_OF_REASON) ?? "";
}

function slowestOf(modules: readonly TestModule[]): { name: string; cpuMs: number }[] {
  return modules
    .map((module) => ({ name: module.relativeModuleId, cpuMs: module.meta().cpuMs ?? 0 }))
    .sort((a, b) => b.cpuMs - a.cpuMs)
    .slice(0, SLOWEST);
}
