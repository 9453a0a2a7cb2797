/** Arguments that the command line refuses instead of ignoring them, and lists that say what they leave out. */
import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, it as each, expect, type TestContext } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import {
  Cli,
  checkBuild,
  endAll,
  leasehold,
  MAIN,
  ownEnvironment,
  type Serving,
  serve,
} from "../support/processes/cli.js";

// Each has names of its own on the server, and most of them wait for a process: one of them for 30 s.
const it = each.concurrent;

let server: Serving;
beforeAll(async () => {
  checkBuild();
  server = await serve();
});
afterAll(() => endAll());

/** With the store as the first option, because -- may follow. */
const run = (...args: readonly string[]) =>
  leasehold(args, { env: { LEASEHOLD_STORE: server.url } });

async function refuses(args: readonly string[], why: string): Promise<void> {
  const { code, stderr } = await run(...args);
  expect({ args, code, stderr }).toEqual({ args, code: 64, stderr: expect.stringContaining(why) });
}

/** Accepts connections and never answers, until the end of the test. */
async function hanging({ onTestFinished }: TestContext): Promise<{ port: number }> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => {});
  });
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const { port } = server.address() as { port: number };
  return { port };
}

// It begins first, because it takes the longest.
it("retries a Redis that hangs until the time that it announced", async (context) => {
  const { port } = await hanging(context);
  const cli = new Cli(["ls", "--store", `redis://127.0.0.1:${port}`]);
  const line = await cli.until(({ err }) => err.find((text) => text.includes("retrying until")));
  const until = Date.parse(/until (.*Z)$/.exec(line)?.[1] ?? "");
  const { code } = await cli.ended;
  expect({ code, early: Date.now() < until - 1_000 }).toEqual({ code: 69, early: false });
});

it("run --wait 0 tries a store that hangs once, and announces no retry", async (context) => {
  const { port } = await hanging(context);
  const store = `redis://127.0.0.1:${port}`;
  const { code, stderr } = await leasehold([
    "run",
    "r",
    "--wait",
    "0",
    "--store",
    store,
    "--",
    "true",
  ]);
  expect({ code, stderr }).toEqual({ code: 69, stderr: expect.not.stringContaining("retrying") });
});

it("refuses an empty namespace, and names where it comes from", async () => {
  const commands = ["ls", "why r", "show r", "audit list", "keys list", "limits show", "tasks"];
  for (const words of [...commands, "pause --list"]) {
    await refuses([...words.split(" "), "--namespace", ""], "--namespace is empty");
  }
  const env = { LEASEHOLD_STORE: server.url, LEASEHOLD_NAMESPACE: "" };
  expect(await leasehold(["ls"], { env })).toMatchObject({
    code: 64,
    stderr: expect.stringContaining("LEASEHOLD_NAMESPACE is empty"),
  });
});

it.each([
  [["tasks", "cancel", "--kind", "a", "--kind", "b", "--reason", "r"], "--kind"],
  [["ls", "--owner", "a", "--owner=b"], "--owner"],
  [["ls", "--store", "memory:", "--store", "memory:"], "--store"],
  [["limits", "set", "--leases", "5", "--leases", "none", "--reason", "r"], "--leases"],
  [["run", "r", "--wait", "1s", "--wait", "2s", "--", "true"], "--wait"],
  [["run", "r", "-E", "1", "--conflict-exit-code", "2", "--", "true"], "--conflict-exit-code"],
])("%j is refused: an option of one value is given twice", async (args, option) =>
  refuses(args, `${option} is given more than once`),
);

it.each(["--leases", "--tasks"])("limits set refuses %s 0, as a server does", async (option) =>
  refuses(["limits", "set", option, "0", "--reason", "r"], "a whole number from 1 to 1000000000"),
);

it("worker refuses two values of one --option", async () => {
  const options = ["--option", "rate=1", "--option", "other=2", "--option", "rate=3"];
  await refuses(["worker", "--handlers", "h.js", ...options], "rate is given more than once");
});

it.each([
  [["tasks", "--queue", "a", "cancel", "--kind", "k", "--reason", "r"], "--queue", "tasks cancel"],
  [["tasks", "--json", "pause-queue", "q", "--reason", "r"], "--json", "tasks pause-queue"],
  [
    ["tasks", "--store", "memory:", "retry", "--kind", "k", "--reason", "r"],
    "--store",
    "tasks retry",
  ],
])("%j is refused: the subcommand would not see the option", async (args, option, path) =>
  refuses(
    args,
    `${option} has no effect before a subcommand: write options after "leasehold ${path}"`,
  ),
);

it.each([
  ["retry", "done", "dead, cancelled, expired, pending"],
  ["cancel", "done", "pending, running"],
  ["delete", "running", "done, dead, cancelled, expired, pending"],
])("tasks %s refuses --state %s, and names the others", async (verb, state, allowed) =>
  refuses(["tasks", verb, "--state", state, "--reason", "r"], `Allowed choices are ${allowed}`),
);

it("tasks retry says of pending tasks that they are due", async () => {
  await run("enqueue", "due-kind", "--scheduled-at", "2999-01-01T00:00:00Z");
  const filters = ["--kind", "due-kind", "--state", "pending", "--reason", "r", "--yes"];
  const { code, stdout } = await run("tasks", "retry", ...filters);
  expect({ code, stdout }).toEqual({ code: 0, stdout: "1 of 1 pending tasks are due now" });
});

it.each([
  ["serve", "--port", "6000"],
  ["serve", "--port", "10080"],
  ["demo", "--port", "6667"],
  ["run", "r", "--metrics-port", "2049", "--", "true"],
])("%s refuses a port to which fetch never connects: %s %s", async (...words) => {
  const port = words.find((word) => /^\d+$/.test(word));
  await refuses(words, `port ${port} is blocked by fetch, in browsers as in Node`);
});

it("serve refuses such a port of the environment too", async () => {
  const { code, stderr } = await leasehold(["serve"], { env: { PORT: "6000" } });
  expect({ code, stderr }).toEqual({
    code: 64,
    stderr: expect.stringContaining("port 6000 is blocked by fetch"),
  });
});

it("serve refuses two values of one limit", async () =>
  refuses(
    ["serve", "--port", "0", "--limits", "leases=5,leases=6"],
    "leases is given more than once",
  ));

it("takes repeatable options more than once", async () => {
  const actions = ["--action", "lease.revoke", "--action", "FORCE_UNLOCK"];
  expect(await run("audit", "list", ...actions)).toMatchObject({ stderr: "", code: 0 });
});

it("tasks delete fails if it changes nothing", async () => {
  const id = "no task";
  const { code, stdout } = await run("tasks", "delete", id, "--reason", "r");
  expect({ code, stdout }).toEqual({ code: 1, stdout: expect.stringContaining("deleted 0 of 1") });
});

it("tasks cancel counts an id that is given twice once", async () => {
  const { stdout: id } = await run("enqueue", "twice");
  const { code, stdout } = await run("tasks", "cancel", id, id, "--reason", "r");
  expect({ code, stdout }).toEqual({ code: 0, stdout: "cancelled 1 of 1 tasks" });
});

it("tasks cancel refuses ids together with filters", async () => {
  const id = "01890a5d-ac96-774b-bcce-b302099a8057";
  await refuses(["tasks", "cancel", id, "--kind", "k", "--reason", "r"], "not both");
});

it.each([
  ["tasks", "--kind", ""],
  ["tasks", "--queue", " "],
  ["tasks", "cancel", "--kind", "", "--reason", "r"],
])("%j refuses a blank filter", async (...args) => refuses(args, "must not be blank"));

it("pause --list refuses what it would ignore", async () => {
  for (const args of [["r1"], ["--prefix", "zzz"], ["--queue", "q"]]) {
    await refuses(["pause", "--list", ...args], "--list lists all pauses");
  }
  for (const option of ["--reason", "--actor"]) {
    await refuses(["pause", "--list", option, "x"], `${option} has no meaning with --list`);
  }
});

it.each([
  ["--state", "done"],
  ["--queue", "q"],
  ["--kind", "k"],
  ["--limit", "20"],
  ["--cursor", "c"],
])("tasks ID refuses %s, which only a list has", async (option, value) => {
  const { stdout: id } = await run("enqueue", "one-kind");
  await refuses(["tasks", id, option, value], `${option} has no meaning with the id of a task`);
});

it("tasks cancel by filters counts without --yes, and succeeds whatever the count", async () => {
  const cancel = ["tasks", "cancel", "--kind", "counted", "--reason", "r"];
  const counted = async () => {
    const { code, stdout } = await run(...cancel);
    return { code, stdout };
  };
  const rest = "none was changed: add --yes to change them";
  expect(await counted()).toEqual({ code: 0, stdout: "no tasks match" });
  await run("enqueue", "counted");
  const one = "1 task matches; it was not changed: add --yes to change it";
  expect(await counted()).toEqual({ code: 0, stdout: one });
  await run("enqueue", "counted");
  expect(await counted()).toEqual({ code: 0, stdout: `2 tasks match; ${rest}` });
  const { code, stdout } = await run(...cancel, "--json");
  expect({ code, found: JSON.parse(stdout) as unknown }).toEqual({
    code: 0,
    found: { matched: 2, more: false },
  });
});

it("elect --observe refuses the options of candidates", async () => {
  for (const option of [
    ["--ttl", "5s"],
    ["--grace", "1s"],
    ["--holder", "h"],
  ]) {
    await refuses(["elect", "e", "--observe", ...option], `${option[0]} has no meaning`);
  }
});

it("audit list refuses an action that does not exist, and names those that do", async () => {
  await refuses(["audit", "list", "--action", "lease.revok"], "lease.revoke");
  for (const action of ["task.cancel", "key.create", "generator.rate", "queue.pause"]) {
    expect(await run("audit", "list", "--action", action)).toMatchObject({ code: 0 });
  }
});

it("tasks says that more tasks match, or that none does", async () => {
  await run("enqueue", "many");
  await run("enqueue", "many");
  const { stdout } = await run("tasks", "--kind", "many", "--limit", "1");
  expect(stdout).toMatch(/^all tasks: pending \d/);
  expect(stdout).toContain("more: --cursor ");
  const [, cursor = ""] = /more: --cursor (\S+)/.exec(stdout) ?? [];
  const next = await run("tasks", "--kind", "many", "--limit", "1", "--cursor", cursor, "--json");
  const page = JSON.parse(next.stdout) as { items: unknown[]; nextCursor: unknown };
  expect({ items: page.items.length, nextCursor: page.nextCursor }).toEqual({
    items: 1,
    nextCursor: null,
  });
  expect((await run("tasks", "--kind", "nokind")).stdout).toMatch(/no tasks match$/);
});

it("ls prints a cursor that can be pasted into a shell", async () => {
  await using leases = await connect(server.url);
  const names = ["paste/a", "paste/it's a $HOME", "paste/z"];
  for (const name of names) await leases.acquire(name);
  const page = async (more: string) => {
    const main = 'leasehold() { "$NODE" "$MAIN" "$@"; }';
    const command = `${main}; leasehold ls paste/ --limit 1${more}`;
    const env = { ...ownEnvironment(), NODE: process.execPath, MAIN, LEASEHOLD_STORE: server.url };
    const { stdout } = await promisify(execFile)("bash", ["-c", command], { env });
    return stdout;
  };
  let more = "";
  for (const name of names) {
    const text = await page(more);
    expect(text).toContain(name);
    more = /^more:( .*)$/m.exec(text)?.[1] ?? "";
  }
  expect(more).toBe("");
});

it("audit list says that there are more entries", async () => {
  for (const name of ["a", "b"]) await run("pause", name, "--reason", "r");
  expect((await run("audit", "list", "--limit", "1")).stderr).toBe(
    "there is more than 1 entry: raise --limit",
  );
  expect((await run("audit", "list", "--target", "a")).stderr).toBe("");
});

it("run says which wait has passed", async () => {
  const holding = new Cli([
    "run",
    "held",
    "--store",
    server.url,
    "--",
    "sh",
    "-c",
    "echo go; sleep 60",
  ]);
  await holding.until(({ out }) => out.includes("go"));
  const { code, stderr } = await run("run", "held", "--wait", "1s", "--", "true");
  expect({ code, stderr }).toEqual({
    code: 75,
    stderr: expect.stringContaining("after --wait 1000ms"),
  });
  await holding.end("SIGKILL");
});

it("doctor says that the address of the metrics is wrong", async () => {
  const args = ["doctor", "--samples", "5", "--for", "0", "--metrics", `${server.url}/nope`];
  expect((await run(...args)).stdout).toContain("check the address");
});

it("enqueue says that stdin had no tasks", async () => {
  const { code, stderr } = await run("enqueue", "k", "-");
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: expect.stringContaining("no lines, no tasks"),
  });
});

it("refuses an empty host, which would be every address of the machine", async () => {
  await refuses(["run", "r", "--metrics-port", "0", "--metrics-host", "", "--", "true"], "blank");
  const env = { LEASEHOLD_STORE: server.url, LEASEHOLD_METRICS_HOST: "" };
  const { code, stderr } = await leasehold(["run", "r", "--", "true"], { env });
  expect({ code, stderr }).toEqual({ code: 64, stderr: expect.stringContaining("blank") });
});

it("watch refuses a poll interval of 0", async () =>
  refuses(["watch", "--every", "0"], "greater than 0"));

it("commands that only read refuse a directory without a database, and create none", async ({
  onTestFinished,
}) => {
  const cwd = await mkdtemp(join(tmpdir(), "leasehold-cli-"));
  onTestFinished(() => rm(cwd, { recursive: true }));
  const { leaseId } = JSON.parse((await run("acquire", "r", "--json")).stdout) as {
    leaseId: string;
  };
  const commands = ["ls", "show r", "why r", "watch", "tasks", "audit list", "audit verify"]
    .concat("audit export", "keys list", "limits show", "pause --list", "revoke r --reason r")
    .map((words) => words.split(" "));
  for (const words of [...commands, ["doctor"], ["renew", leaseId], ["release", leaseId]]) {
    const { code, stderr } = await leasehold([...words, "--store", "pglite:mistyped"], { cwd });
    expect({ words, code, stderr }).toEqual({
      words,
      code: 64,
      stderr: expect.stringContaining(join(cwd, "mistyped")),
    });
  }
  expect(await readdir(cwd)).toEqual([]);
  const made = await leasehold(["enqueue", "k", "--store", "pglite:new"], { cwd });
  expect(made).toMatchObject({
    code: 0,
    stderr: expect.stringContaining(`creating a PGlite database in ${join(cwd, "new")}`),
  });
  const verified = await leasehold(["audit", "verify", "--store", "pglite:new"], { cwd });
  expect(verified).toMatchObject({
    code: 0,
    stderr: "",
    stdout: expect.stringContaining("no entries: is this the right store?"),
  });
});
