/** `leasehold once` as people call it: real processes, one after the other and at once, on a PGlite directory and PostgreSQL. */
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";
import { Cli, checkBuild, leasehold, serve } from "../support/processes/cli.js";
import { endAll, temporaryFolder } from "../support/processes/processes.js";

beforeAll(checkBuild);
afterEach(() => endAll());

const TIMEOUT_MS = 120_000;

it(
  "runs a command until it has succeeded once, and tells later callers who did it",
  async () => {
    const store = `pglite:${join(await temporaryFolder(), "data")}`;
    const once = (...args: string[]) => leasehold(["once", "report", "--store", store, ...args]);
    const failed = await once("--holder", "ann", "--", "sh", "-c", "echo begun; exit 3");
    expect([failed.code, failed.stdout]).toEqual([3, "begun"]);
    expect(failed.stderr).toContain(
      'leasehold: "report" is not done: the command ended with exit code 3',
    );
    const done = await once("--holder", "bob", "--", "sh", "-c", "echo written; echo note >&2");
    expect([done.code, done.stdout, done.stderr]).toEqual([0, "written", "note"]);
    const again = await once("--", "echo", "written twice");
    expect([again.code, again.stdout]).toEqual([0, ""]);
    expect(again.stderr).toMatch(
      /^leasehold: "report" was done by bob at .*; the command is not run$/,
    );
    const notice = JSON.parse((await once("--json", "--", "echo", "no")).stderr) as object;
    expect(notice).toMatchObject({ event: "done", key: "report", by: "bob" });
    expect((notice as { output: string }).output).toMatch(/^(written\nnote|note\nwritten)\n$/);
  },
  TIMEOUT_MS,
);

it(
  "says that a key has failed for good",
  async () => {
    const store = `pglite:${join(await temporaryFolder(), "data")}`;
    const once = (...args: string[]) => leasehold(["once", "job", "--store", store, ...args]);
    expect((await once("--max-attempts", "1", "--", "false")).code).toBe(1);
    const refused = await once("--", "echo", "never");
    expect([refused.code, refused.stdout]).toEqual([1, ""]);
    expect(refused.stderr).toContain('ONCE_FAILED: "job" has failed once, the last time with: the');
  },
  TIMEOUT_MS,
);

it(
  "says at once that a server refuses by a limit, and while it waits for that",
  async () => {
    const { url } = await serve("memory:", ["--limits", "leases=1"]);
    const env = { LEASEHOLD_STORE: url };
    const { stdout } = await leasehold(["acquire", "a", "--ttl", "10m", "--json"], { env });
    const { leaseId } = JSON.parse(stdout) as { leaseId: string };
    const impatient = await leasehold(["once", "b", "--", "true"], { env });
    expect([impatient.code, impatient.stderr]).toEqual([
      69,
      expect.stringMatching(/STORE_UNAVAILABLE: the server refused, by a limit: .*at most 1 /),
    ]);
    const waiting = new Cli(["once", "b", "--wait", "5m", "--json", "--", "echo", "done"], { env });
    const refusal = await waiting.until(({ err }) => err[0]);
    expect(JSON.parse(refusal)).toMatchObject({ event: "refused", until: expect.any(String) });
    await leasehold(["release", leaseId], { env });
    expect(await waiting.ended).toMatchObject({ code: 0, stdout: "done" });
  },
  TIMEOUT_MS,
);

/** What an operator does with keys, on a store without any. */
async function operate(store: string): Promise<void> {
  const run = (...args: string[]) => leasehold(args, { env: { LEASEHOLD_STORE: store } });
  const once = (key: string, ...words: string[]) =>
    run("once", key, "--holder", "ann", "--max-attempts", "1", "--", ...words);
  expect((await once("job/1", "sh", "-c", "echo sent; echo two")).code).toBe(0);
  expect((await once("job/2", "false")).code).toBe(1);
  const listed = await run("once", "list", "--prefix", "job/", "--json");
  expect((JSON.parse(listed.stdout) as { items: object[] }).items).toMatchObject([
    { key: "job/1", state: "done", by: "ann", value: { exitCode: 0, output: "sent\ntwo\n" } },
    { key: "job/2", state: "failed", failures: 1 },
  ]);
  const failed = (await run("once", "list", "--state", "failed")).stdout;
  expect(failed).toMatch(/job\/2 +failed +ann .* 1 .*the command ended with exit code 1/);
  expect(failed).not.toContain("job/1");
  const shownKey = (await run("once", "show", "job/2")).stdout;
  expect(shownKey).toMatch(/^job\/2 {2}failed\nby ann at .*, token \d+\nfailures 1\nerror the/);
  const retry = ["once", "retry", "job/2", "--reason", "mended", "--actor", "eve"];
  expect((await run(...retry)).stdout).toContain("is retried: the next caller tries again");
  expect(await run(...retry)).toMatchObject({ code: 1 });
  expect((await once("job/2", "echo", "mended")).stdout).toBe("mended");
  const working = new Cli(
    ["once", "job/3", "--holder", "bob", "--", "sh", "-c", "echo on; sleep 600"],
    {
      env: { LEASEHOLD_STORE: store },
    },
  );
  await working.until(({ out }) => out[0]);
  const underWay = await run("once", "show", "job/3");
  expect([underWay.code, underWay.stderr]).toEqual([
    64,
    expect.stringContaining("bob works on it"),
  ]);
  const why = await run("why", "job/3");
  expect(why.stdout).toContain("bob works on the key of once with this name: leasehold why");
  expect((await run("why", "once:job/3")).stdout).toContain("is held by bob");
  process.kill(working.pid, "SIGTERM");
  await working.ended;
  const gone = await run("once", "delete", "job/1", "--reason", "wrong", "--json");
  expect(JSON.parse(gone.stdout)).toEqual({ key: "job/1", changed: true });
  const none = await run("once", "show", "job/1");
  expect([none.code, none.stderr]).toEqual([64, expect.stringContaining('under "job/1"')]);
  const forced = await run("once", "job/2", "--force", "--reason", "twice", "--", "echo", "2");
  expect([forced.code, forced.stdout]).toEqual([0, "2"]);
  const audit = await run("audit", "list", "--json");
  const items = JSON.parse(audit.stdout) as {
    action: string;
    target: string;
    reason: string;
    phase: string;
  }[];
  const actions = items.filter(({ phase }) => phase !== "intent");
  expect(actions.map(({ action, target, reason }) => [action, target, reason])).toEqual([
    ["once.delete", "job/2", "twice"],
    ["once.delete", "job/1", "wrong"],
    ["once.retry", "job/2", "mended"],
    ["once.retry", "job/2", "mended"],
  ]);
}

it(
  "lists, shows, retries and deletes keys of a server, with an entry in its audit",
  async () => operate((await serve("memory:")).url),
  TIMEOUT_MS,
);

it("refuses --force without a reason, and a reason without --force", async () => {
  const run = (...args: string[]) =>
    leasehold(["once", "job", "--store", "pglite:unused", ...args, "--", "true"]);
  const unsaid = await run("--force");
  expect([unsaid.code, unsaid.stderr]).toEqual([64, expect.stringContaining("needs --reason")]);
  const idle = await run("--reason", "why");
  expect([idle.code, idle.stderr]).toEqual([64, expect.stringContaining("without --force")]);
});

describePostgres("once, on many machines at once", () => {
  let database: FreshDatabase;
  beforeAll(async () => {
    database = await freshDatabase();
  });
  afterAll(() => database.drop());

  it(
    "runs a command on one of them",
    async () => {
      const args = ["once", "nightly", "--store", database.url, "--", "echo", "done"];
      const ended = await Promise.all(Array.from({ length: 4 }, () => leasehold(args)));
      expect(ended.map(({ code }) => code)).toEqual([0, 0, 0, 0]);
      expect(ended.filter(({ stdout }) => stdout === "done")).toHaveLength(1);
    },
    TIMEOUT_MS,
  );

  it(
    "lists, shows, retries and deletes keys, with an entry in the audit",
    () => operate(database.url),
    TIMEOUT_MS,
  );
});
