import type { Reporter, TestModule } from "vitest/node";

const SHOWN = 15;

/** With SLOW=1: ends a run with its slowest files and tests, in seconds. */
export default class SlowReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    if (process.env["SLOW"] !== "1") return;
    const files: Entry[] = [];
    const tests: Entry[] = [];
    for (const module of modules) {
      const { collectDuration, duration } = module.diagnostic();
      files.push({ name: module.relativeModuleId, ms: collectDuration + duration });
      for (const test of module.children.allTests()) {
        const name = `${module.relativeModuleId} > ${test.fullName}`;
        tests.push({ name, ms: test.diagnostic()?.duration ?? 0 });
      }
    }
    print(`slowest of ${files.length} files`, files);
    print(`slowest of ${tests.length} tests`, tests);
  }
}

interface Entry {
  readonly name: string;
  readonly ms: number;
}

function print(title: string, entries: readonly Entry[]): void {
  const slowest = entries.toSorted((a, b) => b.ms - a.ms).slice(0, SHOWN);
  const lines = slowest.map(({ name, ms }) => `${(ms / 1_000).toFixed(1).padStart(7)}  ${name}`);
  process.stdout.write(`${title}:\n${lines.join("\n")}\n`);
}
