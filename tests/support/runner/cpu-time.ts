/** Notes the CPU time of a test file, for the summary of the run: on a busy machine, time on the wall says little. */
import { afterAll, beforeEach } from "vitest";

declare module "vitest" {
  interface TaskMeta {
    /** What the worker took from the import of the file to its last hook, without its child processes. */
    cpuMs?: number;
  }
}

const before = process.cpuUsage();
let meta: { cpuMs?: number } | undefined;
beforeEach(({ task }) => {
  meta = task.file.meta;
});
afterAll(() => {
  if (!meta) return;
  const { user, system } = process.cpuUsage(before);
  meta.cpuMs = (user + system) / 1_000;
});
