/** Which store and which tenant a command uses, by real processes. */
import { mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import {
  type CommandEntry,
  commandTree,
} from "../../packages/leasehold-server/src/cli/command-tree.js";
import { loadProgram } from "../../packages/leasehold-server/src/cli/program.js";
import { freshPglite } from "../support/engines/pglite.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";
import { describeRedis, startRedis } from "../support/engines/redis-engine.js";
import {
  Cli,
  type CliOptions,
  checkBuild,
  endAll,
  leasehold,
  serve,
} from "../support/processes/cli.js";

const SLOW = { timeout: 60_000 };
const PATIENT = { timeout: 30_000, interval: 50 };
const HANDLERS = fileURLToPath(new URL("../support/processes/cli-handlers.js", import.meta.url));

let folder: string;
beforeAll(async () => {
  checkBuild();
  folder = await mkdtemp(join(tmpdir(), "leasehold-stores-"));
});
afterAll(async () => {
  await endAll();
  await rm(folder, { recursive: true, force: true });
});

async function entries(): Promise<readonly CommandEntry[]> {
  const { program } = await loadProgram();
  return commandTree(program).filter(({ isAlias }) => !isAlias);
}

const optionOf = ({ options }: CommandEntry, name: string) =>
  options.find(({ long }) => long === name);

describe("the tenant", SLOW, () => {
  it("is an option of every command that works in one", async () => {
    // These work on all tenants of a database, or on no store.
    const all = /^(demo|serve|migrate|audit (verify|export))$/;
    const without = (await entries())
      .filter((entry) => optionOf(entry, "--store") && !all.test(entry.path))
      .filter((entry) => optionOf(entry, "--namespace")?.env !== "LEASEHOLD_NAMESPACE");
    expect(without.map(({ path }) => path)).toEqual([]);
  });

  describePostgres("in a database", () => {
    let database: FreshDatabase;
    let tenant: CliOptions;
    beforeAll(async () => {
      database = await freshDatabase();
      tenant = { env: { LEASEHOLD_STORE: database.url, LEASEHOLD_NAMESPACE: "tenant" } };
      return () => database.drop();
    });
    const inDefault = (...args: string[]) => leasehold([...args, "--namespace", "default"], tenant);

    it("of run and elect is that of acquire", async () => {
      expect(
        await leasehold(["acquire", "r", "--ttl", "10m", "--holder", "script"], tenant),
      ).toMatchObject({ code: 0 });
      const ran = await leasehold(["run", "r", "--wait", "0", "--", "echo", "ran"], tenant);
      expect(ran).toMatchObject({ code: 75, stdout: "" });
      const other = ["run", "r", "--wait", "0", "--namespace", "default", "--", "echo", "ran"];
      expect(await leasehold(other, tenant)).toMatchObject({ code: 0, stdout: "ran" });
      const observing = new Cli(["elect", "r", "--observe"], tenant);
      await observing.until(({ out }) => out[0]?.startsWith("script leads, token "));
      expect((await observing.end("SIGTERM")).code).toBe(0);
    });

    it("of a server is that of the API key, and another is refused", async () => {
      const create = ["keys", "create", "--name", "n", "--role", "admin", "--namespace", "shop"];
      const { stdout: key } = await leasehold(create, tenant);
      const { cli, url } = await serve(database.url);
      const env = { LEASEHOLD_STORE: url, LEASEHOLD_KEY: key };
      const acquired = await leasehold(["acquire", "of-shop", "--json"], { env });
      const { leaseId } = JSON.parse(acquired.stdout) as { leaseId: string };
      const because = ["--reason", "because"];
      const commands = [
        ["run", "other", "--", "true"],
        ["ls"],
        ["show", "of-shop"],
        ["renew", leaseId],
        ["enqueue", "kind"],
        ["tasks"],
        ["generate", "status"],
        ["pause", "paused", ...because],
        ["resume", "paused", ...because],
        ["release", leaseId],
      ];
      for (const args of commands) {
        expect({ args, ...(await leasehold(args, { env })) }).toMatchObject({ args, code: 0 });
        const wrong = await leasehold(args, { env: { ...env, LEASEHOLD_NAMESPACE: "other" } });
        expect({ args, ...wrong }).toMatchObject({ args, code: 64 });
        expect(wrong.stderr).toContain('must be "shop"');
      }
      // The key goes to each of several servers, of which the first is down.
      const several = { ...env, LEASEHOLD_STORE: url.replace("//", "//127.0.0.1:2,") };
      expect(await leasehold(["ls"], { env: several })).toMatchObject({ code: 0 });
      const client = await connect(database.url, { namespace: "shop" });
      expect((await client.list()).items.map(({ resource }) => resource)).toContain("of-shop");
      await client.close();
      expect((await cli.end("SIGTERM")).code).toBe(0);
    });

    it("of worker, tasks and generate is that of enqueue", async () => {
      const { stdout: id } = await leasehold(["enqueue", "double", "21"], tenant);
      expect((await leasehold(["tasks"], tenant)).stdout).toContain(id);
      expect((await inDefault("tasks")).stdout).not.toContain(id);
      expect(await inDefault("tasks", id)).toMatchObject({ code: 64 });
      const worker = new Cli(["worker", "--handlers", HANDLERS], tenant);
      const client = await connect(database.url, { namespace: "tenant" });
      await vi.waitFor(
        async () => expect(await client.tasks.get(id)).toMatchObject({ state: "done", output: 42 }),
        PATIENT,
      );
      await client.close();
      expect((await worker.end("SIGTERM")).code).toBe(0);
      expect((await leasehold(["generate", "start", "--json"], tenant)).stdout).toContain(
        '"running":true',
      );
      expect((await inDefault("generate", "status", "--json")).stdout).toContain('"running":false');
    });
  });
});

describe("the store", SLOW, () => {
  it("has no default, but for serve and demo", async () => {
    const found = (await entries()).flatMap((entry) => {
      const store = optionOf(entry, "--store");
      return store?.defaultText ? [entry.path] : [];
    });
    expect(found).toEqual(["demo", "serve"]);
  });

  it("must be named, or else a command ends with 64 and the remedy", async () => {
    const commands = [
      ["run", "r", "--", "echo", "ran"],
      ["acquire", "r"],
      ["elect", "r", "--", "echo", "ran"],
      ["worker", "--handlers", HANDLERS],
      ["enqueue", "double"],
      ["tasks"],
      ["ls"],
      ["generate", "status"],
      ["revoke", "r", "--reason", "because"],
      ["keys", "list"],
      ["migrate"],
      ["doctor"],
    ];
    for (const args of commands) {
      const { code, stdout, stderr } = await leasehold(args, { cwd: folder });
      expect({ args, code, stdout }).toEqual({ args, code: 64, stdout: "" });
      expect(stderr).toContain("pass --store URL or set LEASEHOLD_STORE");
      expect(stderr).toContain("leasehold serve");
    }
  });

  it("of serve is an embedded one, and serve says where", async () => {
    const { directory } = await freshPglite();
    // Filled, because a busy machine takes long to create a database.
    await rename(directory, join(folder, ".leasehold"));
    const cli = new Cli(["serve", "--port", "0"], { cwd: folder });
    const line = await cli.until(({ err }) => err.find((text) => text.includes("listening on")));
    expect(JSON.parse(line)).toMatchObject({
      store: "pglite:.leasehold",
      directory: join(folder, ".leasehold"),
    });
    expect((await cli.end("SIGTERM")).code).toBe(0);
  });

  it("in the memory of one process is refused where others would not see it", async () => {
    const commands = [
      ["enqueue", "double", "21"],
      ["run", "r", "--", "echo", "ran"],
      ["elect", "r", "--", "echo", "ran"],
      ["worker", "--handlers", HANDLERS],
      ["tasks"],
      ["pause", "r", "--reason", "because"],
    ];
    for (const args of commands) {
      const env = { LEASEHOLD_STORE: "memory:x" };
      const { code, stdout, stderr } = await leasehold(args, { env });
      expect({ args, code, stdout }).toEqual({ args, code: 64, stdout: "" });
      expect(stderr).toContain("leasehold serve --store memory:x");
    }
    // A directory whose variable is unset: such a database is in memory as well.
    const unset = await leasehold(["run", "r", "--store", "pglite:", "--", "echo", "ran"]);
    expect(unset).toMatchObject({ code: 64, stdout: "" });
    expect(unset.stderr).toContain("no other process sees the leases and tasks in pglite:");
  });

  it("in a directory that another process has open is served by that one", async () => {
    const { directory, remove } = await freshPglite();
    onTestFinished(remove);
    const store = `pglite:${directory}`;
    const { cli, url } = await serve(store);
    const refused = await leasehold(["run", "r", "--wait", "1m", "--store", store, "--", "true"]);
    expect(refused.code).toBe(78);
    expect(refused.stderr).toContain(`is open in process ${cli.pid}`);
    expect(refused.stderr).toContain(`leasehold serve --store ${store}`);
    expect(refused.stderr).toContain("the http:// address that it prints");
    const served = await leasehold(["run", "r", "--store", url, "--", "echo", "ran"]);
    expect(served).toMatchObject({ code: 0, stdout: "ran" });
    expect((await cli.end("SIGTERM")).code).toBe(0);
  });
});

describe("run", SLOW, () => {
  it("is also called lock, and ends at a conflict with the code of -E", async () => {
    const { cli, url } = await serve();
    const holding = new Cli(["lock", "r", "--store", url, "--", "sh", "-c", "echo go; sleep 60"]);
    await holding.until(({ out }) => out.includes("go"));
    const refused = (...args: string[]) =>
      leasehold(["lock", "r", "--wait", "0", "--store", url, ...args, "--", "echo", "ran"]);
    const [usual, own, zero, wrong] = await Promise.all([
      refused(),
      refused("-E", "7"),
      refused("--conflict-exit-code", "0"),
      refused("-E", "256"),
    ]);
    expect([usual.code, own.code, zero.code, wrong.code]).toEqual([75, 7, 0, 64]);
    for (const { stdout } of [usual, own, zero, wrong]) expect(stdout).toBe("");
    for (const { stderr } of [usual, own, zero]) expect(stderr).toContain("LEASE_UNAVAILABLE");
    expect((await holding.end("SIGTERM")).code).toBe(143);
    expect((await cli.end("SIGTERM")).code).toBe(0);
  });

  it("reports what it does as JSON lines with --json", async () => {
    const { cli, url } = await serve();
    const args = ["run", "r", "--store", url, "--holder", "me", "--ttl", "3s", "--json"];
    const script = "echo between >&2; echo go; while :; do sleep 0.1; done";
    const running = new Cli([...args, "--", "sh", "-c", script]);
    await running.until(({ out }) => out.includes("go"));
    const refused = await leasehold([...args, "--wait", "0", "--", "true"]);
    expect(JSON.parse(refused.stderr)).toMatchObject({ error: { code: "LEASE_UNAVAILABLE" } });
    const client = await connect(url);
    const token = (await client.get("r"))?.token;
    await client.revoke("r", { free: "now" });
    await client.close();
    const { code, stdout, stderr } = await running.ended;
    expect({ code, stdout }).toEqual({ code: 76, stdout: "go" });
    const lines = stderr.split("\n");
    expect(lines[1]).toBe("between");
    const [acquired, stopping, lost] = [lines[0], lines[2], lines[3]].map(
      (line) => JSON.parse(line ?? "") as unknown,
    );
    expect(acquired).toEqual({ event: "acquired", resource: "r", holder: "me", token });
    const message = 'the lease on "r" is lost: revoked';
    expect(stopping).toEqual({ event: "stopping", resource: "r", message });
    expect(lost).toMatchObject({ error: { code: "LEASE_LOST" } });
    expect((await cli.end("SIGTERM")).code).toBe(0);
  });

  it("says in JSON that it waits for the store", async () => {
    const args = ["run", "r", "--store", "postgres://127.0.0.1:1/x", "--wait", "2s", "--json"];
    const { code, stderr } = await leasehold([...args, "--", "true"]);
    expect(code).toBe(69);
    const lines = stderr.split("\n").map((line) => JSON.parse(line) as object);
    expect(lines).toMatchObject([{ event: "retrying" }, { error: { code: "STORE_UNAVAILABLE" } }]);
  });

  it.each([["2s"], ["0"]])(
    "acquire waits for the store as long as --wait %s says",
    async (wait) => {
      const args = [
        "acquire",
        "r",
        "--store",
        "postgres://127.0.0.1:1/x",
        "--wait",
        wait,
        "--json",
      ];
      const { code, stderr } = await leasehold(args);
      expect(code).toBe(69);
      const lines = stderr.split("\n").map((line) => JSON.parse(line) as { until?: string });
      expect(lines.at(-1)).toMatchObject({ error: { code: "STORE_UNAVAILABLE" } });
      const untilMs = lines.flatMap(({ until }) => (until ? [Date.parse(until)] : []));
      // What it says of its end counts, and not how long a busy machine takes.
      for (const each of untilMs) expect(each - Date.now()).toBeLessThan(2_500);
      expect(untilMs).toHaveLength(wait === "0" ? 0 : 1);
    },
  );
});

describeRedis("a password that Redis does not ask for", () => {
  it("is one notice, in JSON with --json, though the driver warns at each connection", async () => {
    const server = await startRedis();
    onTestFinished(() => server.remove());
    const store = `redis://:unused@127.0.0.1:${server.port}`;
    const { code, stderr } = await leasehold(["acquire", "r", "--store", store, "--json"]);
    expect(code).toBe(0);
    const lines = stderr.split("\n").map((line) => JSON.parse(line) as object);
    expect(lines).toEqual([
      { event: "warning", message: expect.stringContaining("a password was supplied") as string },
    ]);
  });
});
