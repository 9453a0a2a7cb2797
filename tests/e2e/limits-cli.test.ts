/** `leasehold tasks limits` and the keys of `leasehold enqueue` as people call them, on a PGlite directory and on a server. */
import { join } from "node:path";
import { afterEach, beforeAll, expect, it } from "vitest";
import { checkBuild, leasehold, serve } from "../support/processes/cli.js";
import { endAll, temporaryFolder } from "../support/processes/processes.js";

beforeAll(checkBuild);
afterEach(() => endAll());

const TIMEOUT_MS = 120_000;

/** What an operator does with limits, on a store without any. */
async function operate(store: string): Promise<void> {
  const run = (...args: string[]) => leasehold(args, { env: { LEASEHOLD_STORE: store } });
  const why = ["--reason", "the warehouse is slow", "--actor", "eve"];
  const limits = (...args: string[]) => run("tasks", "limits", ...args);
  const keyed = ["--concurrency-key", "ada", "--per-key", "2", "--order", "any", "--rate", "5/1m"];
  const id = (await run("enqueue", "pay", "1", ...keyed)).stdout;
  expect((await run("tasks", id)).stdout).toContain(
    "concurrency key ada, 2 at a time, any, 5 started within 60s",
  );
  expect(await run("enqueue", "pay", "1", "--per-key", "2")).toMatchObject({ code: 64 });
  expect((await limits("list")).stdout).toBe("no limits");
  const set = (...args: string[]) => limits("set", "kind", "report", ...args, ...why);
  expect((await set("--running", "5")).stdout).toBe('the kind "report" is limited');
  expect((await set("--running", "5")).stdout).toBe('the kind "report" was limited so already');
  const rate = ["--running", "2", "--rate", "100/1m"];
  expect((await set(...rate)).stdout).toBe('the kind "report" is limited anew');
  expect(await set()).toMatchObject({ code: 64 });
  expect(await set("--rate", "often")).toMatchObject({ code: 64 });
  const { items } = JSON.parse((await limits("list", "--json")).stdout) as { items: object[] };
  expect(items).toMatchObject([
    { scope: "kind", name: "report", running: 2, rate: { limit: 100, perMs: 60_000 }, live: 0 },
  ]);
  expect((await limits("list")).stdout).toMatch(/kind report +0 of 2 +0 of 100 within 60s .*eve/);
  const remove = () => limits("remove", "kind", "report", ...why);
  expect((await remove()).stdout).toBe('the kind "report" has no limit any more');
  expect(await remove()).toMatchObject({ code: 1 });
  const audit = await run("audit", "list", "--json");
  const entries = JSON.parse(audit.stdout) as { action: string; target: string; phase: string }[];
  const done = entries.filter(({ phase }) => phase !== "intent");
  expect(done.map(({ action, target }) => `${action} ${target}`)).toEqual([
    "taskLimit.remove kind report",
    "taskLimit.remove kind report",
    "taskLimit.set kind report",
    "taskLimit.set kind report",
    "taskLimit.set kind report",
  ]);
}

it(
  "lists, sets and removes limits of a database, with entries in its audit",
  async () => operate(`pglite:${join(await temporaryFolder(), "data")}`),
  TIMEOUT_MS,
);

it(
  "lists, sets and removes limits of a server",
  async () => {
    const { url } = await serve("memory:");
    await operate(url);
  },
  TIMEOUT_MS,
);
