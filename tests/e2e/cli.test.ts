/** The command line end to end, by real processes. */
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { connect, defineTask, type Tasks } from "../../packages/leasehold/src/index.js";
import type { TaskState } from "../../packages/leasehold/src/tasks/index.js";
import {
  Cli,
  checkBuild,
  endAll,
  isAlive,
  leasehold,
  type Serving,
  serve,
  stateOf,
} from "../support/processes/cli.js";

/** Processes start slowly while the machine is busy. */
const SLOW = { timeout: 60_000 };
const PATIENT = { timeout: 30_000, interval: 50 };

let folder: string;
let server: Serving;
beforeAll(async () => {
  checkBuild();
  folder = await mkdtemp(join(tmpdir(), "leasehold-cli-"));
  server = await serve();
});
afterEach(() => endAll(server.cli));
afterAll(async () => {
  await endAll();
  await rm(folder, { recursive: true, force: true });
});

let names = 0;
/** A resource, or a queue, that no other test uses. */
const fresh = () => `name-${(names += 1)}`;
/** `leasehold run` on the server. */
const run = (
  resource: string,
  options: readonly string[],
  command: readonly string[],
  { url } = server,
) => new Cli(["run", resource, "--store", url, ...options, "--", ...command]);
const gone = (pid: number) =>
  vi.waitFor(async () => expect(await isAlive(pid)).toBe(false), PATIENT);
const sh = (script: string) => ["sh", "-c", script];

describe("run", SLOW, () => {
  it("gives the command its token and ends with the command's code", async () => {
    const script = "echo $LEASEHOLD_RESOURCE $LEASEHOLD_HOLDER $LEASEHOLD_TOKEN; exit 7";
    const first = await run("a b", ["--holder", "me"], sh(script)).ended;
    expect(first).toMatchObject({ code: 7, stderr: "" });
    const [, token] = /^a b me (\d+)$/.exec(first.stdout) ?? [];
    const second = await run("a b", [], sh("echo $LEASEHOLD_TOKEN; kill -9 $$")).ended;
    expect(second.code).toBe(137);
    expect(Number(second.stdout)).toBeGreaterThan(Number(token));
  });

  it("exits with 75 when another holder has the resource, and waits with --wait", async () => {
    const name = fresh();
    const end = join(folder, "end");
    const script = `echo go; while [ ! -e "${end}" ]; do sleep 0.05; done`;
    const holding = run(name, ["--holder", "first"], sh(script));
    await holding.until(({ out }) => out.includes("go"));
    const refused = await run(name, ["--wait", "0"], ["true"]).ended;
    expect(refused.code).toBe(75);
    expect(refused.stderr).toContain(`leasehold: LEASE_UNAVAILABLE: "${name}" is held by first;`);
    expect(refused.stderr).toContain("docs/errors.md#lease_unavailable");
    const waiting = run(name, ["--wait", "1m"], sh("echo now"));
    await writeFile(end, "");
    expect(await waiting.ended).toMatchObject({ code: 0, stdout: "now" });
  });

  it("stops the command and what it has started when the store is gone", async () => {
    // Both ignore SIGTERM, so that only SIGKILL ends them.
    const script = `trap "" TERM; sh -c 'trap "" TERM; echo $$; while :; do sleep 0.1; done' & echo $$; wait; wait`;
    const own = await serve();
    const options = ["--ttl", "2s", "--grace", "200ms"];
    const running = run("r", options, sh(script), own);
    const pids = await running.until(({ out }) => out.length === 2 && out.map(Number));
    own.cli.kill("SIGKILL");
    const { code, stderr } = await running.ended;
    expect(code).toBe(76);
    expect(stderr).toMatch(/ is lost: expired \(its renewals failed: .+\); stopping the command/);
    for (const pid of pids) await gone(pid);
  });

  it("stops the command when an operator revokes the lease", async () => {
    const name = fresh();
    const script = "trap 'echo bye; exit 0' TERM; echo go; while :; do sleep 0.1; done";
    const running = run(name, ["--ttl", "5s"], sh(script));
    await running.until(({ out }) => out.includes("go"));
    await using leases = await connect(server.url);
    expect(await leases.revoke(name)).toMatchObject({ status: "revoked" });
    // It says good-bye and 0, but its right had ended.
    const { code, stdout, stderr } = await running.ended;
    expect(stderr).toContain(`the lease on "${name}" is lost: revoked`);
    expect({ code, stdout }).toEqual({ code: 76, stdout: "go\nbye" });
  });

  it("stops the command when it is itself killed with -9, be it at the first line", async () => {
    const script = "echo $$; while :; do sleep 0.1; done";
    const killed = Array.from({ length: 6 }, async () => {
      const running = run(fresh(), [], sh(script));
      const pid = await running.until(({ out }) => Number(out[0]));
      running.kill("SIGKILL");
      await gone(pid);
    });
    await Promise.all(killed);
  });

  it("passes signals on and ends as the command does", async () => {
    const script = "trap 'exit 5' INT; trap 'exit 6' HUP; echo go; while :; do sleep 0.1; done";
    for (const [signal, code] of [
      ["SIGINT", 5],
      ["SIGHUP", 6],
      ["SIGTERM", 143],
    ] as const) {
      const running = run(fresh(), [], sh(script));
      await running.until(({ out }) => out.includes("go"));
      expect((await running.end(signal)).code).toBe(code);
    }
  });

  it("ends at a signal while it waits", async () => {
    const name = fresh();
    const holding = run(name, [], sh("echo go; sleep 60"));
    await holding.until(({ out }) => out.includes("go"));
    const waiting = run(name, [], ["true"]);
    // Nothing tells that it waits by now; while it starts, the signal ends it too.
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect([143, "SIGTERM"]).toContain((await waiting.end("SIGTERM")).code);
  });

  it("stops with the terminal's Ctrl-Z, command and all", async () => {
    const script = "console.log(process.pid); setInterval(() => console.log('on'), 20)";
    const running = run(fresh(), [], [process.execPath, "-e", script]);
    const pid = await running.until(({ out }) => Number(out[0]));
    running.kill("SIGTSTP");
    const states = () => Promise.all([pid, running.pid].map(stateOf));
    await vi.waitFor(async () => expect(await states()).toEqual(["T", "T"]), PATIENT);
    const before = running.out.length;
    running.kill("SIGCONT");
    await running.until(({ out }) => out.length > before + 3);
  });

  it("says why a command cannot be started or a lease not be had", async () => {
    const missing = await run(fresh(), [], ["/no/such/command"]).ended;
    expect(missing).toMatchObject({ code: 127 });
    expect(missing.stderr).toMatch(/^leasehold: cannot start the command: .*not found$/);
    expect((await run(fresh(), [], ["/etc"]).ended).code).toBe(126);
    const lost = await leasehold([
      "run",
      "r",
      "--store",
      "http://127.0.0.1:2",
      "--wait",
      "0",
      "--",
      "true",
    ]);
    expect(lost.code).toBe(69);
    expect(lost.stderr).toMatch(/^leasehold: STORE_UNAVAILABLE: /m);
    expect(lost.stderr).not.toMatch(/^ +at /m);
    const usage = [
      "run",
      "r",
      "--store",
      server.url,
      "--ttl",
      "1s",
      "--grace",
      "900ms",
      "--",
      "true",
    ];
    const refused = await leasehold(usage);
    expect(refused.code).toBe(64);
    expect(refused.stderr).toContain("--grace must be at most half of --ttl");
  });
});

describe("serve, worker, enqueue, tasks, generate", SLOW, () => {
  const HANDLERS = fileURLToPath(new URL("../support/processes/cli-handlers.js", import.meta.url));
  let tasks: Tasks;
  beforeAll(async () => {
    const client = await connect(server.url);
    tasks = client.tasks;
    return () => client.close();
  });

  const worker = async (queue: string, ...args: string[]) => {
    const store = args.includes("--store") ? [] : ["--store", server.url];
    const common = [...store, "--handlers", HANDLERS, "--queue", queue];
    const cli = new Cli(["worker", ...common, ...args]);
    await cli.until(({ err }) => err.some((line) => line.includes('"working"')));
    return cli;
  };
  const enqueue = async (args: readonly string[], input = "") => {
    const all = ["enqueue", "--store", server.url, ...args];
    const { code, stdout, stderr } = await leasehold(all, { input });
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    return stdout.split("\n");
  };
  const untilState = (id: string, state: TaskState) =>
    vi.waitFor(async () => expect(await tasks.get(id)).toMatchObject({ state }), PATIENT);
  const output = async (id: string) => {
    await untilState(id, "done");
    return (await tasks.get(id))?.output;
  };

  it("works on what is enqueued, and shows it", async () => {
    const [one, two] = [fresh(), fresh()];
    const [single = ""] = await enqueue(["double", "21", "--queue", one]);
    const many = await enqueue(["double", "-", "--queue", two, "--priority", "5"], "1\n\n2\r\n3");
    expect(many).toHaveLength(3);
    const [options = ""] = await enqueue(["options", "--queue", two]);
    await worker(one, two, "--option", "n=5", "--option", "text=a=b");
    expect(await output(single)).toBe(42);
    expect(await Promise.all(many.map(output))).toEqual([2, 4, 6]);
    expect(await output(options)).toEqual({ n: 5, text: "a=b" });

    const list = ["tasks", "--store", server.url];
    const { stdout } = await leasehold([...list, "--state", "done", "--queue", two, "--json"]);
    const { counts, items } = JSON.parse(stdout) as { counts: object; items: { id: string }[] };
    expect(counts).toMatchObject({ done: expect.any(Number) as number, dead: 0 });
    expect(items.map(({ id }) => id).sort()).toEqual([...many, options].sort());
    expect((await leasehold([...list, single])).stdout).toContain("output 42");
    expect((await leasehold([...list, "--queue", one])).stdout).toContain(single);
    const unknown = await leasehold([...list, "00000000-0000-7000-8000-000000000000"]);
    expect(unknown).toMatchObject({ code: 64, stdout: "" });
  });

  it("works once: until its queues are empty, and says whether a task died", async () => {
    const queue = fresh();
    await enqueue(["double", "-", "--queue", queue], "1\n2\n3\n");
    await enqueue(["double", "4", "--queue", queue, "--scheduled-at", "2100-01-01T00:00:00Z"]);
    const cli = await worker(queue, "--once");
    expect(await cli.ended).toMatchObject({ code: 0 });
    const stats = ["tasks", "stats", "--store", server.url, "--queue", queue];
    const counted = await leasehold([...stats, "--json"]);
    expect(JSON.parse(counted.stdout)).toEqual({
      items: [
        {
          queue,
          kind: "double",
          pending: 1,
          running: 0,
          done: 3,
          dead: 0,
          cancelled: 0,
          expired: 0,
          due: 0,
          dueForMs: null,
        },
      ],
      complete: true,
    });
    expect((await leasehold(stats)).stdout).toMatch(/^queue +kind +due +oldest due +pending/);
    expect((await leasehold([...stats, "--kind", "other"])).stdout).toBe("no tasks match");
    const fails = defineTask("options", { queue, maxAttempts: 1 });
    await tasks.enqueue(fails, null);
    const failing = await worker(queue, "--once", "--option", "fail=true");
    expect(await failing.ended).toMatchObject({ code: 1 });
  });

  it("ends at a signal although it works once", async () => {
    const queue = fresh();
    const cli = await worker(queue, "--once", "--grace", "0s");
    expect(await cli.ended).toMatchObject({ code: 0 });
    const { id } = await tasks.enqueue(defineTask("wait", { queue }), 600_000);
    const busy = await worker(queue, "--once", "--grace", "0s");
    await untilState(id, "running");
    expect(await busy.end("SIGINT")).toMatchObject({ code: 0 });
    await untilState(id, "pending");
  });

  it("names what it added before a line that is not JSON, and duplicates", async () => {
    const queue = ["--queue", fresh(), "--store", server.url];
    const input = `${"1\n".repeat(150)}nonsense\n`;
    const { code, stdout, stderr } = await leasehold(["enqueue", "x", "-", ...queue], { input });
    expect(code).toBe(64);
    expect(stderr).toMatch(/^leasehold: line 151 is not JSON/);
    expect(stdout.split("\n")).toHaveLength(100);
    const [first = ""] = await enqueue(["x", "1", "--dedupe-key", "k", "--json"]);
    const [second = ""] = await enqueue(["x", "1", "--dedupe-key", "k", "--json"]);
    const { id } = JSON.parse(first) as { id: string };
    expect(JSON.parse(second)).toEqual({ id, status: "duplicate" });
  });

  it("drains at SIGTERM: lets short tasks end, gives long ones back, ends with 0", async () => {
    const own = await serve();
    const queue = fresh();
    const cli = await worker(queue, "--store", own.url, "--grace", "3s");
    await using tasksClient = await connect(own.url);
    const there = tasksClient.tasks;
    const wait = defineTask<number>("wait", { queue });
    const short = await there.enqueue(wait, 1_000);
    const long = await there.enqueue(wait, 600_000);
    await vi.waitFor(async () => expect((await there.counts()).running).toBe(2), PATIENT);
    expect(await cli.end("SIGTERM")).toMatchObject({ code: 0 });
    expect(await there.get(short.id)).toMatchObject({ state: "done", output: "waited" });
    expect(await there.get(long.id)).toMatchObject({ state: "pending", attempt: 1, crashes: 0 });
    expect(await own.cli.end("SIGTERM")).toMatchObject({ code: 0 });
  });

  it("ends at once at a second signal, but not at an echo of the first", async () => {
    const queue = fresh();
    const cli = await worker(queue, "--grace", "1h");
    const { id } = await tasks.enqueue(defineTask("deaf", { queue }), null);
    await untilState(id, "running");
    cli.kill("SIGINT");
    cli.kill("SIGINT");
    const later = new Promise((resolve) => setTimeout(resolve, 1_500, "still draining"));
    expect(await Promise.race([cli.ended, later])).toBe("still draining");
    expect((await cli.end("SIGINT")).code).toBe(130);
  });

  it("steers generators through what is stored", async () => {
    const generate = async (...args: string[]) => {
      const { stdout } = await leasehold(["generate", ...args, "--store", server.url, "--json"]);
      return JSON.parse(stdout) as unknown;
    };
    expect(await generate("status")).toMatchObject({ running: false, holder: null });
    const cli = new Cli(["generate", "--store", server.url, "--holder", "g1"]);
    await generate("start", "--rate", "20");
    await vi.waitFor(async () => {
      expect((await tasks.list({ kind: "sleep" })).items.length).toBeGreaterThan(3);
    }, PATIENT);
    const running = { running: true, ratePerSecond: 20, holder: "g1" };
    expect(await generate("status")).toMatchObject(running);
    expect(await generate("stop")).toMatchObject({ running: false, ratePerSecond: 20 });
    expect(await generate("rate", "0.5")).toMatchObject({ running: false, ratePerSecond: 0.5 });
    expect(await cli.end("SIGINT")).toMatchObject({ code: 0 });
    expect(await generate("status")).toMatchObject({ holder: null });
  });

  it("refuses to serve leases that would be bound to the server", async () => {
    const refused = await leasehold(["serve", "--store", "zookeeper://127.0.0.1/locks"]);
    expect(refused.code).toBe(64);
    expect(refused.stderr).toContain("a server cannot serve leases of ZooKeeper");
  });

  it("refuses a file without handlers, and a port that is taken", async () => {
    const file = fileURLToPath(import.meta.resolve("picocolors"));
    const wrong = await leasehold(["worker", "--store", server.url, "--handlers", file]);
    expect(wrong.code).toBe(64);
    expect(wrong.stderr).toContain("must be an array of handlers made by defineTask");
    const { port } = new URL(server.url);
    const taken = await leasehold(["serve", "--store", "memory:x"], { env: { PORT: port } });
    expect(taken.code).toBe(64);
    expect(taken.stderr).toContain(`port ${port} of 127.0.0.1 is in use`);
  });
});

describe("migrate", SLOW, () => {
  it("says which steps it took, and who is in its way", async () => {
    const store = `pglite:${join(folder, "migrate")}`;
    const migrate = (...args: string[]) => leasehold(["migrate", "--store", store, ...args]);
    expect((await migrate()).stdout).toMatch(/: applied baseline/);
    const { cli } = await serve(store);
    const { code, stderr } = await migrate();
    expect(code).toBe(78);
    expect(stderr).toContain(`is open in process ${cli.pid}`);
    expect(await cli.end("SIGINT")).toMatchObject({ code: 0 });
    expect(JSON.parse((await migrate("--json")).stdout)).toEqual({ store, applied: [] });
  });

  it("says which steps it would take, with their SQL, and when they were taken", async () => {
    const directory = join(folder, "planned");
    const store = `pglite:${directory}`;
    const migrate = (...args: string[]) => leasehold(["migrate", "--store", store, ...args]);
    const [dry, sql, status, both] = await Promise.all([
      migrate("--dry-run"),
      migrate("--sql"),
      migrate("--status", "--json"),
      migrate("--sql", "--status"),
    ]);
    expect(dry).toMatchObject({ code: 0, stderr: "" });
    expect(dry.stdout).toMatch(/: would apply baseline/);
    expect(sql.stdout).toMatch(
      /^-- pglite:.*\n\n-- baseline\nBEGIN ISOLATION LEVEL READ COMMITTED;\n/,
    );
    expect(sql.stdout).toContain("CREATE TABLE leasehold.task (");
    expect(sql.stdout.match(/^COMMIT;$/gm)).toHaveLength(dry.stdout.split(", ").length);
    const { steps } = JSON.parse(status.stdout) as { steps: { appliedAt: string | null }[] };
    expect(steps.every(({ appliedAt }) => appliedAt === null)).toBe(true);
    expect(both).toMatchObject({ code: 64, stdout: "" });
    expect(both.stderr).toContain("cannot be used with");
    // None of them has created the database.
    expect(existsSync(directory)).toBe(false);
    expect(await migrate()).toMatchObject({ code: 0 });
    expect((await migrate("--dry-run")).stdout).toBe(`${store}: up to date`);
    expect((await migrate("--sql")).stdout).toBe(`-- ${store}: up to date`);
    expect((await migrate("--status")).stdout).toMatch(/^baseline +\d{4}-\d\d-\d\dT/m);
  });

  it("has nothing to do in memory", async () => {
    const { stdout } = await leasehold(["migrate"], { env: { LEASEHOLD_STORE: "memory:x" } });
    expect(stdout).toBe("memory:x: memory has no tables: nothing to migrate");
  });
});

describe("what is typed wrong", SLOW, () => {
  it.each([
    [["nonsense"], "unknown command 'nonsense'", "Commands: demo, serve, worker,"],
    [["serve", "--porn", "1"], "unknown option '--porn'", "--port"],
    [["run", "r", "--ttl", "5x", "--", "true"], "'5x' is invalid", "500ms, 30s, 5m, 2h"],
    [
      ["run", "r", "--store", "ftp://x", "--", "true"],
      "INVALID_OPTION: --store must begin",
      "docs/errors.md",
    ],
    [["worker"], "--handlers <file>", "Options: --store"],
    [["generate", "nonsense"], "unknown command 'nonsense'", "Commands: run, start,"],
    [["enqueue", "kind", "{", "--store", "redis://x"], "the data is not JSON", ""],
    [["tasks", "--state", "weird"], "Allowed choices are pending, running,", ""],
  ])("%j", async (args, problem, remedy) => {
    const { code, stdout, stderr } = await leasehold(args);
    expect(stderr).toContain(problem);
    expect(stderr).toContain(remedy);
    expect(stderr).not.toMatch(/^ +at /m);
    expect({ code, stdout }).toEqual({ code: 64, stdout: "" });
  });

  it("tells the stack only when asked", async () => {
    const args = ["tasks", "--store", "ftp://nowhere"];
    expect((await leasehold([...args, "--verbose"])).stderr).toMatch(/^ +at /m);
    const { stderr } = await leasehold([...args, "--json"]);
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: "INVALID_OPTION" } });
  });

  it("helps", async () => {
    const commands = ["demo", "serve", "worker", "generate", "enqueue", "tasks", "run", "migrate"];
    const { code, stdout } = await leasehold(["--help"]);
    expect(code).toBe(0);
    for (const command of commands) expect(stdout).toMatch(new RegExp(`^  ${command}\\b`, "m"));
    const helps = await Promise.all(commands.map((command) => leasehold([command, "--help"])));
    for (const help of helps) expect(help.stdout).toMatch(/^Examples?:\n {2}(leasehold|npm) /m);
    expect((await leasehold(["--version"])).stdout).toMatch(/^\d+\.\d+\.\d+$/);
  });
});
