/** The command line of operators and scripts, by real processes. */
import { execFileSync } from "node:child_process";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import { connect, defineTask } from "../../packages/leasehold/src/index.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";
import {
  Cli,
  checkBuild,
  endAll,
  leasehold,
  type Serving,
  serve,
} from "../support/processes/cli.js";

const PATIENT = { timeout: 30_000, interval: 50 };
const root = fileURLToPath(new URL("../..", import.meta.url));

let server: Serving;
beforeAll(async () => {
  checkBuild();
  server = await serve();
});
afterEach(() => endAll(server.cli));
afterAll(() => endAll());

let names = 0;
const fresh = (prefix = "cli") => `${prefix}-${(names += 1)}`;

/** Runs on the server; answers code, stderr and, of stdout, the JSON. */
async function run(args: readonly string[], { store = server.url, input = "" } = {}) {
  const { code, stdout, stderr } = await leasehold([...args, "--json", "--store", store], {
    input,
  });
  return { code, stderr, json: stdout === "" ? null : (JSON.parse(stdout) as never) };
}

describe("acquire, renew, release", () => {
  it("leave a lease in the hands of a script", async () => {
    const resource = fresh("a b'c");
    const env = { LEASEHOLD_STORE: server.url };
    // As a shell does it: what acquire prints is evaluated, and the others find it in the environment.
    const script = `
      leasehold() { "${process.execPath}" packages/leasehold-server/dist/cli/main.js "$@"; }
      eval "$(leasehold acquire "${resource}" --ttl 1m --holder script)" || exit
      echo "$LEASE_RESOURCE|$LEASE_TOKEN|$LEASE_REMAINING_MS"
      leasehold acquire "$LEASE_RESOURCE" 2>/dev/null; echo "second $?"
      leasehold renew --ttl 2m --json
      printf %s "$LEASE_ID" | leasehold release -
      leasehold renew 2>&1; echo "renew $?"
      leasehold release --json "$LEASE_ID" 2>&1; echo "release $?"`;
    const out = execFileSync("bash", ["-c", script], {
      cwd: root,
      encoding: "utf8",
      env: { ...process.env, ...env },
    });
    const [line = "", second, renewed = "{}", released, ...rest] = out.trim().split("\n");
    const [name, token, remainingMs] = line.split("|");
    expect(name).toBe(resource);
    expect(Number(remainingMs)).toBeLessThanOrEqual(59_390);
    expect(second).toBe("second 75");
    expect(JSON.parse(renewed)).toMatchObject({ resource, token: Number(token) });
    expect((JSON.parse(renewed) as { remainingMs: number }).remainingMs).toBeGreaterThan(60_000);
    expect(released).toBe(`released ${resource}`);
    expect(rest.join("\n")).toContain("LEASE_LOST");
    expect(rest).toContain("renew 76");
    // A repeated release succeeds, because the first answer may have been lost.
    expect(rest.at(-1)).toBe("release 0");
    await using leases = await connect(server.url);
    expect(await leases.get(resource)).toMatchObject({ state: "released", holder: "script" });
  });

  it("say what cannot be", async () => {
    const [memory, none, nonsense] = await Promise.all([
      run(["acquire", "r"], { store: "memory:x" }),
      run(["renew"]),
      run(["release", "nonsense"]),
    ]);
    expect(memory.code).toBe(64);
    expect(memory.stderr).toContain("no other process sees the leases and tasks in memory:x");
    expect(none).toMatchObject({ code: 64, json: null });
    expect(none.stderr).toContain("which lease?");
    expect(nonsense).toMatchObject({ code: 64, json: null });
  });
});

interface Page {
  readonly items: readonly { resource: string }[];
  readonly nextCursor: string | null;
}

describe("ls, show, watch, elect", () => {
  it("list by prefix, holder and time, page by page, and show one", async () => {
    const prefix = `${fresh("ls")}/`;
    await using one = await connect(server.url, { holder: "one", graceMs: 0 });
    await using two = await connect(server.url, { holder: "two", graceMs: 0 });
    for (const [index, leases] of [one, two, one, two, one].entries()) {
      const ttlMs = index === 4 ? 600_000 : 60_000;
      await leases.acquire(`${prefix}${index}`, { ttlMs, metadata: { job: `${index}` } });
    }
    const list = async (...args: string[]) => {
      const { items, nextCursor } = (await run(["ls", prefix, ...args])).json as unknown as Page;
      return { found: items.map(({ resource }) => Number(resource.at(-1))), nextCursor };
    };
    const [mine, soon, long, first] = await Promise.all([
      list("--owner", "one"),
      list("--expiring-within", "2m"),
      list("--long-held", "1h"),
      list("--owner", "one", "--limit", "2"),
    ]);
    expect(mine).toEqual({ found: [0, 2, 4], nextCursor: null });
    expect(soon.found).toEqual([0, 1, 2, 3]);
    expect(long.found).toEqual([]);
    // The cursor goes on right behind what was shown, not behind what was looked at.
    expect(first.found).toEqual([0, 2]);
    expect((await list("--cursor", first.nextCursor ?? "")).found).toEqual([3, 4]);
    const shown = await leasehold(["show", `${prefix}4`, "--store", server.url]);
    expect(shown.stdout).toMatch(/^ls-.*4 {2}live\nholder one, token \d+/);
    expect(shown.stdout).toContain('metadata {"job":"4"}');
    expect(await run(["show", fresh("missing")])).toMatchObject({ code: 64 });
  });

  it("watch who takes and loses what", async () => {
    const prefix = fresh("watch");
    await using leases = await connect(server.url, { holder: "me", graceMs: 0 });
    const before = await leases.acquire(`${prefix}/before`);
    const args = ["watch", prefix, "--every", "50ms", "--json", "--store", server.url];
    const watching = new Cli(args);
    const prints = (event: string, resource: string) =>
      watching.until(({ out }) =>
        out
          .map((line) => JSON.parse(line) as { event: string; lease: { resource: string } })
          .some((change) => change.event === event && change.lease.resource === resource),
      );
    await prints("live", `${prefix}/before`);
    const lease = await leases.acquire(`${prefix}/r`);
    await prints("acquired", `${prefix}/r`);
    await Promise.all([lease.release(), before.release()]);
    await prints("released", `${prefix}/r`);
    await leases.acquire(`${prefix}/short`, { ttlMs: 1_000, autoRenew: false });
    await prints("acquired", `${prefix}/short`);
    await prints("expired", `${prefix}/short`);
    expect((await watching.end("SIGTERM")).code).toBe(0);
  });

  it("elect one leader, who runs the command, and then the next", async () => {
    const name = fresh("election");
    const elect = (holder: string, script: string) =>
      new Cli([
        "elect",
        name,
        "--ttl",
        "2s",
        "--grace",
        "200ms",
        "--holder",
        holder,
        "--store",
        server.url,
        "--",
        "sh",
        "-c",
        script,
      ]);
    const script = 'echo "$LEASE_HOLDER leads $LEASE_TOKEN"; while :; do sleep 0.1; done';
    const first = elect("first", script);
    const leads = /^(\w+) leads (\d+)$/;
    await first.until(({ out }) => out.some((line) => leads.test(line)));
    const observing = new Cli(["elect", name, "--observe", "--json", "--store", server.url]);
    await observing.until(({ out }) => out.some((line) => line.includes('"leader":"first"')));
    await using leases = await connect(server.url);
    expect(await leases.revoke(name, { free: "now" })).toMatchObject({ status: "revoked" });
    // It stops its command, and stands again.
    const terms = await first.until(({ out }) => out.length === 2 && out);
    const [before = 0, after = 0] = terms.map((line) => Number(leads.exec(line)?.[2]));
    expect(after).toBeGreaterThan(before);
    expect(first.err.join("\n")).toContain("is lost: revoked; stopping the command");
    const second = elect("second", "exit 4");
    expect((await first.end("SIGTERM")).code).toBe(143);
    // The next one leads, and its command ends by itself.
    expect(await second.ended).toMatchObject({ code: 4 });
    await observing.until(({ out }) => out.at(-1)?.includes('"leader":null'));
    expect((await observing.end("SIGINT")).code).toBe(0);
  });
});

/** Every way in: the stores themselves, or a server before them. */
function acts(where: () => string) {
  const at = (args: readonly string[]) => run(args, { store: where() });
  const because = ["--reason", "because"];

  it("revoke a lease, or say why not", async () => {
    const resource = fresh("revoke");
    await using leases = await connect(where(), { graceMs: 0 });
    const lease = await leases.acquire(resource, { ttlMs: 600_000 });
    const reasonless = await leasehold(["revoke", resource, "--store", where()]);
    expect(reasonless).toMatchObject({ code: 64, stdout: "" });
    expect(reasonless.stderr).toContain("--reason");
    const other = await at(["revoke", resource, "--expected-token", "987654", ...because]);
    expect(other).toMatchObject({ code: 76, json: { status: "otherToken" } });
    const token = String(lease.token);
    const done = await at([
      "revoke",
      resource,
      "--at",
      "now",
      "--expected-token",
      token,
      ...because,
    ]);
    expect(done).toMatchObject({ code: 0, json: { status: "revoked", freeInMs: 0 } });
    expect(await leases.get(resource)).toMatchObject({ state: "revoked" });
    expect(await at(["revoke", resource, ...because])).toMatchObject({ code: 76 });
  });

  it("pause and resume a resource", async () => {
    const resource = fresh("pause");
    await using leases = await connect(where(), { graceMs: 0 });
    expect((await at(["pause", resource, ...because])).code).toBe(0);
    expect(await leases.tryAcquire(resource)).toBeNull();
    const shown = await at(["show", resource]);
    expect(shown.json).toMatchObject({ lease: null, paused: [{ reason: "because" }] });
    const list = (await at(["pause", "--list"])).json as unknown as { name: string }[];
    expect(list.map(({ name }) => name)).toContain(resource);
    expect(await at(["resume", resource, ...because])).toMatchObject({ json: { wasPaused: true } });
    expect(await leases.tryAcquire(resource)).not.toBeNull();
    expect(await at(["pause", resource, "--queue", "q", ...because])).toMatchObject({ code: 64 });
  });

  it("cancel, retry and delete tasks, one and many, and pause a queue", async () => {
    const queue = fresh("queue");
    await using tasksClient = await connect(where());
    const tasks = tasksClient.tasks;
    const task = defineTask<number>("odd-job", { queue });
    const ids = await Promise.all([1, 2, 3].map(async (n) => (await tasks.enqueue(task, n)).id));
    const [one = ""] = ids;
    expect(await at(["tasks", "cancel", one, ...because])).toMatchObject({
      code: 0,
      json: { changed: 1, tasks: [{ id: one, status: "ok" }] },
    });
    // Filters leave pending tasks out.
    const early = await at(["tasks", "delete", "--queue", queue, ...because]);
    expect(early).toMatchObject({ code: 0, json: { matched: 1 } });
    const all = ["tasks", "cancel", "--queue", queue, ...because];
    expect(await at(all)).toMatchObject({ code: 0, json: { matched: 2 } });
    expect((await tasks.list({ queue, states: ["pending"] })).items).toHaveLength(2);
    expect(await at([...all, "--yes"])).toMatchObject({ code: 0, json: { changed: 2 } });
    expect(await at(["tasks", "retry", one, ...because])).toMatchObject({ code: 0 });
    const forget = ["tasks", "delete", "--queue", queue, "--yes", ...because];
    expect(await at(forget)).toMatchObject({ code: 0, json: { changed: 2 } });
    expect((await tasks.list({ queue })).items.map(({ id }) => id)).toEqual([one]);
    expect((await at(["tasks", "pause-queue", queue, ...because])).code).toBe(0);
    const resumed = await at(["tasks", "resume-queue", queue, ...because]);
    expect(resumed).toMatchObject({ json: { kind: "queue", name: queue, wasPaused: true } });
  });
}

describe("acts through a server", () => acts(() => server.url));

describePostgres("acts in the database itself", () => {
  let database: FreshDatabase;
  beforeAll(async () => {
    database = await freshDatabase();
    return () => database.drop();
  });
  acts(() => database.url);

  it("are in the audit, with who and why", async () => {
    const resource = fresh("audited");
    const args = ["revoke", resource, "--reason", "to see it", "--actor", "ann"];
    expect(await run(args, { store: database.url })).toMatchObject({ code: 76 });
    const { json } = await run(["audit", "list", "--target", resource], { store: database.url });
    expect(JSON.stringify(json)).toMatch(/"actor":"cli:ann","action":"lease.revoke".*"to see it"/);
  });

  it("doctor reads the server's settings, and tells a ttl that is too short", async () => {
    expect(await run(["migrate"], { store: database.url })).toMatchObject({ code: 0 });
    const args = ["doctor", "--ttl", "101ms", "--pause", "5s", "--for", "100ms", "--samples", "20"];
    const { code, json } = await run(args, { store: database.url });
    expect(code).toBe(1);
    expect(json).toMatchObject({ healthy: false, measured: { renewal: { count: 20 } } });
    const { checks, ttl } = json as unknown as {
      checks: { what: string; verdict: string }[];
      ttl: { leastMs: number; advisedMs: number; pauseMs: number; renewalMs: number };
    };
    expect(ttl.pauseMs).toBeGreaterThanOrEqual(5_000);
    expect(ttl.leastMs).toBeGreaterThan(ttl.pauseMs + ttl.renewalMs + 10);
    expect(ttl.advisedMs).toBeGreaterThanOrEqual(3 * ttl.leastMs);
    const names = checks.map(({ what }) => what);
    expect(names).toEqual(expect.arrayContaining(["fsync", "synchronous_commit", "--ttl"]));
    expect(checks.find(({ what }) => what === "--ttl")?.verdict).toBe("wrong");
  });
});

it("finds a server healthy, without its settings", async () => {
  const args = ["doctor", "--for", "100ms", "--samples", "5"];
  const { code, json } = await run(args);
  expect({ code, json }).toMatchObject({ code: 0, json: { healthy: true } });
});

it("names the renewal that the TTL counts on for what it is", async () => {
  const { url } = await serve("memory:doctor-few");
  const args = ["doctor", "--store", url, "--for", "100ms", "--samples", "5"];
  expect((await leasehold(args)).stdout).toMatch(/pause \S+ \+ 2 × longest renewal \S+ \+/);
});

it("recommends a TTL from the pauses and renewals that a server has measured", async () => {
  const { cli, url } = await serve("memory:doctor");
  // A pause of the server shows in its timers.
  const client = await connect(url);
  const lease = await client.acquire("held", { ttlMs: 60_000, autoRenew: false });
  process.kill(cli.pid, "SIGSTOP");
  await delay(1_500);
  process.kill(cli.pid, "SIGCONT");
  await lease.renew();
  const args = ["doctor", "--for", "100ms", "--samples", "5"];
  const { json } = await run(args, { store: url });
  const { production, ttl } = json as unknown as {
    production: Record<"stall" | "delay" | "renewal", { count: number; maxMs: number }>;
    ttl: { pauseMs: number; advisedMs: number };
  };
  expect(production.stall.maxMs).toBeGreaterThanOrEqual(2_500);
  expect(production.delay.count).toBe(6);
  expect(production.renewal.count).toBe(6);
  expect(ttl.pauseMs).toBeGreaterThanOrEqual(2_500);
  expect(ttl.advisedMs).toBeGreaterThanOrEqual(7_500);
  await client.close();
  const wrong = ["--metrics", `${url}/nowhere`];
  const { json: report } = await run([...args, ...wrong], { store: url });
  expect(report).toMatchObject({ production: null });
  expect(JSON.stringify(report)).toMatch(/nowhere returned 404.*doubtful/);
});

it("completes commands, options and their values in bash", async () => {
  const { code, stdout } = await leasehold(["completion", "bash"]);
  expect(code).toBe(0);
  const complete = (...words: string[]) =>
    execFileSync(
      "bash",
      [
        "--norc",
        "-c",
        `source <(cat); COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _leasehold; echo "\${COMPREPLY[*]}"`,
        "bash",
        "leasehold",
        ...words,
      ],
      { input: stdout, encoding: "utf8" },
    ).trim();
  expect(complete("re")).toBe("renew release revoke resume");
  expect(complete("tasks", "ret")).toBe("retry");
  expect(complete("tasks", "--state", "d")).toBe("done dead");
  expect(complete("tasks", "retry", "--rea")).toBe("--reason");
  expect(complete("generator", "sta")).toBe("start status");
  expect(complete("completion", "")).toContain("bash zsh fish");
  // A value of which nothing is known, and a command of the user's: what the shell does by itself.
  expect(complete("run", "--holder", "")).toBe("");
  expect(complete("run", "r", "--", "--tt")).toBe("");
  const [zsh, fish] = await Promise.all(
    ["zsh", "fish"].map((shell) => leasehold(["completion", shell])),
  );
  expect(zsh?.stdout).toMatch(/^#compdef leasehold\n/);
  expect(fish?.stdout).toMatch(
    /^complete -c leasehold -n "__leasehold_at 'tasks retry'" -l reason/m,
  );
});

it("has a help with examples for every command, and a reference that is current", async () => {
  execFileSync(process.execPath, ["scripts/cli-reference.js", "--check"], { cwd: root });
  const { commandTree } = await import("../../packages/leasehold-server/src/cli/command-tree.js");
  const { loadProgram } = await import("../../packages/leasehold-server/src/cli/program.js");
  const { program } = await loadProgram();
  const texts = new Map<string, string>();
  for (const command of program.commands) {
    const add = (text: string) =>
      texts.set(command.name(), (texts.get(command.name()) ?? "") + text);
    command.configureOutput({ writeOut: add });
    command.outputHelp();
  }
  for (const [name, text] of texts) expect(text, name).toMatch(/^Examples?:\n {2}\S/m);
  expect(texts.size).toBeGreaterThan(20);
  // What prints results can print them for machines.
  const silent = /^(|demo|serve|worker|generate|generate run|completion|help)$/;
  const mute = commandTree(program)
    .filter(
      ({ path, isAlias, subcommands }) => !isAlias && !(subcommands.length > 0 && path !== "tasks"),
    )
    .filter(
      ({ path, options }) => !silent.test(path) && !options.some(({ long }) => long === "--json"),
    );
  expect(mute.map(({ path }) => path)).toEqual([]);
});

it("runs a generator by either name", async () => {
  const { json } = await run(["generator", "rate", "5", "--reason", "too slow"]);
  expect(json).toMatchObject({ running: false, ratePerSecond: 5 });
  const audit = await fetch(`${server.url}/v1/audit?target=generator`);
  expect(await audit.json()).toMatchObject({
    items: [{ action: "generator.rate", actor: "anyone", reason: "too slow" }, {}],
  });
  await vi.waitFor(async () => {
    expect((await run(["generate", "status"])).json).toMatchObject({ ratePerSecond: 5 });
  }, PATIENT);
});
