import type { Reporter, SerializedError, TestModule } from "vitest/node";

/**
 * Ends a run with `N passed, N failed, N skipped` alone on its line, for programs that read logs. A file
 * that does not load and an error that no test caught count as failed, so `0 failed` means that the run
 * succeeded. The lines before it say why tests were skipped.
 */
export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly SerializedError[]): void {
    const counts = { passed: 0, failed: unhandled.length, skipped: 0 };
    const reasons = new Map<string, number>();
    for (const module of modules) {
      const before = counts.failed;
      for (const test of module.children.allTests()) {
        const result = test.result();
        // One that never ended, because the run was stopped, did not pass. Those of a file that is skipped as a whole
        // never begin.
        const never = module.state() === "skipped" ? "skipped" : "failed";
        counts[result.state === "pending" ? never : result.state]++;
        if (result.state !== "skipped" || result.note === undefined) continue;
        reasons.set(result.note, (reasons.get(result.note) ?? 0) + 1);
      }
      if (module.state() === "failed" && counts.failed === before) counts.failed++;
    }
    for (const [reason, count] of reasons) process.stdout.write(`skipped ${count}: ${reason}\n`);
    const { passed, failed, skipped } = counts;
    process.stdout.write(`${passed} passed, ${failed} failed, ${skipped} skipped\n`);
  }
}
