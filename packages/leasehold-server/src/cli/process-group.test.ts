/** The process that guards a group. Whole commands are tested by tests/operations/run.test.ts. */
import { execFileSync } from "node:child_process";
import { systemClock } from "leasehold/internal";
import { expect, it, onTestFinished, vi } from "vitest";
import { ProcessGroup } from "./process-group.js";

/** Group and command line of each process. */
const processes = () =>
  execFileSync("ps", ["-eo", "pgid=,args="], { encoding: "utf8" })
    .split("\n")
    .map((line) => /^ *(\d+) (.*)$/.exec(line) ?? [])
    .map(([, group, args]) => ({ group, args }));

it("has one timer, however often its time has moved, and leaves no process behind", async () => {
  const options = { env: process.env, graceMs: 1_000, clock: systemClock };
  const running = new ProcessGroup("sleep", ["600"], options);
  onTestFinished(() => running.stop());
  for (let n = 1; n <= 20; n += 1) running.stopWithin(600_000 + n);
  const guard = await vi.waitFor(() => {
    const last = processes().find(({ args }) => args === "sleep 600.02");
    if (!last) throw new Error("the guard has not read the last time");
    return last.group;
  });
  const ofGuard = () => processes().filter(({ group }) => group === guard);
  // The guard, its timer, and what that waits for: neither older ones nor zombies.
  expect(ofGuard()).toHaveLength(3);
  await running.stop();
  expect(await running.exited).toBe(143);
  await vi.waitFor(() => expect(ofGuard()).toEqual([]));
});
