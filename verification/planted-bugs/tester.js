/**
 * Runs test files as its parent asks for them, in one vitest: to start one for each bug takes longer than
 * most tests do, and the engines that all tests share are started once.
 *
 *   { paths, pattern, inNpmTest, hungAfterMs, isSpoilt, changed } ──▶ { failed, file, tier, passedFiles } or { problem }
 */
import { createVitest } from "vitest/node";
import { CLOSE_MS, leave } from "./orphan.js";
import { isInNpmTest } from "./report.js";

let vitest;
let closed;
/** With the engines that all tests share, and those of the test that runs. */
function close() {
  closed ??= (async () => {
    await vitest?.cancelCurrentRun("keyboard-input");
    await vitest?.close();
  })();
  return closed;
}
function end() {
  // Behind the hooks of what tests have started.
  process.once("exit", leave);
  process.exit();
}
// The parent has disconnected, or has gone.
process.once("disconnect", () => {
  setTimeout(end, CLOSE_MS);
  void close().finally(end);
});

vitest = await createVitest("test", {
  watch: false,
  bail: 1,
  hookTimeout: 60_000,
  reporters: [{}],
});
await vitest.standalone();

/** The projects are named by their tier. */
const tierOf = ({ name }) => name.replace(/-alone$/, "");

async function run({ paths, pattern, inNpmTest, hungAfterMs, isSpoilt, changed }) {
  // Without a bug, a test may take long on a busy machine.
  for (const { config } of vitest.projects) config.testTimeout = isSpoilt ? hungAfterMs : 120_000;
  // What a failed test has left behind is no news.
  if (isSpoilt) process.env.LEAKS_SETTLED_WITHIN_MS = "1500";
  else delete process.env.LEAKS_SETTLED_WITHIN_MS;
  for (const file of changed) vitest.invalidateFile(file);
  // Failures of the runs before count for `bail` otherwise.
  const { state } = vitest;
  for (const known of [state.filesMap, state.idMap, state.errorsSet]) known.clear();
  if (pattern) vitest.setGlobalTestNamePattern(new RegExp(pattern));
  else vitest.resetGlobalTestNamePattern();
  const specifications = (await vitest.globTestSpecifications(paths)).filter(
    ({ project }) => isInNpmTest(tierOf(project)) === inNpmTest,
  );
  if (specifications.length === 0) return { failed: null, passedFiles: [] };
  const { testModules, unhandledErrors } = await vitest.runTestSpecifications(specifications);
  const tests = testModules.flatMap((module) => [...module.children.allTests()]);
  const named = ({ fullName }) => fullName.replaceAll(" > ", " ").replace(/\s+/g, " ").trim();
  const first = tests.find((test) => test.result().state === "failed");
  const failed = first ? named(first) : null;
  // A file that cannot be loaded, or an engine that does not start, has found nothing.
  const errors = [...testModules.flatMap((module) => module.errors()), ...unhandledErrors]
    // With a bug, a check waits for what is left behind for a moment only.
    .filter(({ message }) => !(isSpoilt && message.includes("left behind")));
  if (failed === null && errors.length > 0) return { problem: String(errors[0].message) };
  const file = first?.module.relativeModuleId ?? null;
  const passedFiles = testModules
    .filter((module) => module.state() === "passed")
    .map((module) => module.relativeModuleId);
  return { failed, file, tier: first && tierOf(first.project), passedFiles };
}

process.on("message", (order) => {
  if (order === "close") {
    void close().finally(() => process.connected && process.disconnect());
    return;
  }
  void run(order)
    .catch((error) => ({ problem: String(error?.stack ?? error) }))
    .then((answer) => process.connected && process.send(answer));
});
process.send("ready");
