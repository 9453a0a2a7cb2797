/** `leasehold schedules` as people call it, on a PGlite directory and on a server that ticks. */
import { join } from "node:path";
import { afterEach, beforeAll, expect, it } from "vitest";
import { checkBuild, leasehold, serve } from "../support/processes/cli.js";
import { endAll, temporaryFolder } from "../support/processes/processes.js";

beforeAll(checkBuild);
afterEach(() => endAll());

const TIMEOUT_MS = 120_000;

/** What an operator does with schedules, on a store without any. */
async function operate(store: string): Promise<void> {
  const run = (...args: string[]) => leasehold(args, { env: { LEASEHOLD_STORE: store } });
  const declare = (...args: string[]) =>
    run("schedules", "declare", "nightly", "report", '{"of":"sales"}', ...args);
  const times = ["--cron", "0 2 * * *", "--time-zone", "Europe/Zurich"];
  expect((await declare(...times)).stdout).toBe('"nightly" is declared');
  expect((await declare(...times)).stdout).toBe('"nightly" is as it was');
  expect((await declare(...times, "--catch-up", "3")).stdout).toBe('"nightly" is changed');
  const why = ["--reason", "the warehouse moves", "--actor", "eve"];
  const act = (verb: string) => run("schedules", verb, "nightly", ...why);
  expect((await act("pause")).stdout).toBe('"nightly" is paused');
  expect(await act("pause")).toMatchObject({ code: 1 });
  const shown = (await run("schedules", "show", "nightly")).stdout;
  expect(shown).toMatch(/^nightly {2}0 2 \* \* \* Europe\/Zurich\ntask report in default: {"of"/);
  expect(shown).toMatch(/^paused by .* at .*: the warehouse moves$/m);
  expect(shown).toContain("catch up the last 3, overlap skip");
  const { taskId } = JSON.parse(
    (await run("schedules", "run", "nightly", ...why, "--json")).stdout,
  );
  expect((await run("tasks", taskId as string)).stdout).toContain("report");
  expect((await act("resume")).stdout).toBe('"nightly" is resumed');
  const { stdout } = await run("schedules", "list", "--json");
  const { items } = JSON.parse(stdout) as { items: { nextFireTimes: string[] }[] };
  expect(items).toMatchObject([
    { name: "nightly", paused: null, fired: 1, lastTask: { id: taskId, state: "pending" } },
  ]);
  expect(items[0]?.nextFireTimes).toHaveLength(5);
  expect((await run("schedules", "list")).stdout).toMatch(/nightly +0 2 .* report .* pending +0/);
  expect((await act("remove")).stdout).toBe('"nightly" is removed; its tasks stay');
  expect((await run("schedules", "list")).stdout).toBe("no schedules");
  const none = await act("pause");
  expect([none.code, none.stderr]).toEqual([64, expect.stringContaining('named "nightly"')]);
  const audit = await run("audit", "list", "--json");
  const entries = JSON.parse(audit.stdout) as { action: string; target: string; phase: string }[];
  const actions = entries.filter(({ phase }) => phase !== "intent").map(({ action }) => action);
  expect(actions.filter((action) => action.startsWith("schedule."))).toEqual([
    "schedule.pause",
    "schedule.remove",
    "schedule.resume",
    "schedule.run",
    "schedule.pause",
    "schedule.pause",
  ]);
}

it(
  "declares, lists, pauses, runs and removes schedules of a database, with entries in its audit",
  async () => operate(`pglite:${join(await temporaryFolder(), "data")}`),
  TIMEOUT_MS,
);

it(
  "does the same on a server, which ticks by itself",
  async () => {
    const { url } = await serve("memory:");
    await operate(url);
    const env = { LEASEHOLD_STORE: url };
    const declare = ["schedules", "declare", "beat", "ping", "--every", "200ms"];
    expect((await leasehold(declare, { env })).stdout).toBe('"beat" is declared');
    for (let made: unknown[] = []; made.length === 0; ) {
      const { stdout } = await leasehold(["tasks", "--kind", "ping", "--json"], { env });
      made = (JSON.parse(stdout) as { items: unknown[] }).items;
    }
  },
  TIMEOUT_MS,
);

it.each([
  [["--cron", "0 25 * * *"], "cron"],
  [["--cron", "0 2 * * *", "--every", "1h"], "cron"],
  [["--every", "10ms"], "--every"],
  [["--cron", "0 2 * * *", "--time-zone", "Mars/Olympus"], "--time-zone"],
])("refuses %j", async (args, named) => {
  const declare = ["schedules", "declare", "s", "kind", "--store", "pglite:unused"];
  const declared = await leasehold([...declare, ...args]);
  expect([declared.code, declared.stderr]).toEqual([64, expect.stringContaining(named)]);
});
