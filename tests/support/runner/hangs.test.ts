/** What the runner's own timeouts cannot name is named, and ended, in files that hang: in a run of their own. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { ownEnvironment } from "../processes/cli.js";

const root = fileURLToPath(new URL("../../..", import.meta.url));
/** Instead of the minutes that a busy machine may need. */
const SHORT = { HANG_OUTSIDE_MS: "10000", HANG_HOOKS_MS: "5000", HANG_ALLOWANCE_MS: "1000" };

function outcome(command: string, args: readonly string[], env: Readonly<Record<string, string>>) {
  return new Promise<{ code: number; output: string }>((resolve) => {
    execFile(command, args, { env: { ...ownEnvironment(), ...env } }, (error, stdout) =>
      resolve({ code: Number(error?.code ?? 0), output: stdout }),
    );
  });
}

const CI_RUN = readFileSync(join(root, ".ci/run"), "utf8");

it.each([
  ["a program", "step 0.002 sleep 600", "sleep 600"],
  ["one that ignores SIGTERM", `step 0.002 sh -c "trap '' TERM; sleep 2"`, "sh -c"],
  ["one whose output is read by another", "step 0.002 sleep 600 2>&1 | tee /dev/null", "sleep 600"],
])("names a step of .ci/run that hangs: %s", async (_, command, named) => {
  const [step = ""] = /^step\(\) \{$[^]+?^\}$/m.exec(CI_RUN) ?? [];
  const script = `set -euo pipefail\n${step}\n${command}`;
  const { code, output } = await outcome("bash", ["-c", script], {});
  expect(code).not.toBe(0);
  expect(output).toMatch(new RegExp(`^hangs: ${named}.* did not end within 0.002 minutes$`, "m"));
});

it("bounds each long step of .ci/run", () => {
  expect(CI_RUN.match(/^(?:if )?(?:npm|apt-get|scripts\/)/gm)).toBeNull();
  expect(
    CI_RUN.match(/\b(?:step|counted) \d+ npm (?:ci|run|test)/g)?.length,
  ).toBeGreaterThanOrEqual(9);
});

it("names a test, a hook and a file that block their thread or never end, and ends the run", {
  timeout: 300_000,
}, async () => {
  const config = join(root, "tests/support/runner/hanging/vitest.config.ts");
  const args = [join(root, "node_modules/vitest/vitest.mjs"), "run", "--config", config];
  const { code, output } = await outcome(process.execPath, args, SHORT);
  expect(code).toBe(1);
  const named = output.split("\n").flatMap((line) => {
    const [, file, test] =
      /^hangs: .*\/(\S+)\.hangs\.ts > (.+): its process is ended/.exec(line) ?? [];
    return file === undefined ? [] : [`${file}: ${test}`];
  });
  expect(named.sort()).toEqual([
    "blocked-hook: before its first test",
    "blocked-test: a group > blocks its thread",
    "import: before its first test",
    "microtasks: waits without a turn of the event loop",
  ]);
  // A hook that fails skips its tests, and is named as they would be.
  expect(output).toMatch(/^failed: fails\.hangs\.ts > a group: no server$/m);
  expect(output).toMatch(/^1 passed, [1-9]\d* failed, 1 skipped$/m);
});
