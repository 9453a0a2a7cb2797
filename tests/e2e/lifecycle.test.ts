/**
 * Real programs: what keeps them alive and what does not, and how they end. `leasehold` is what was
 * built.
 */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { connect, type Leasehold } from "../../packages/leasehold/src/index.js";
import { freshPglite } from "../support/engines/pglite.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";
import { Cli, checkBuild, endAll, type Serving, serve } from "../support/processes/cli.js";

const script = fileURLToPath(new URL("../support/processes/lifecycle.js", import.meta.url));
const program = (name: string, source: string) => new Cli([name, source], { script });
const hasSaid = (line: string) => (cli: Cli) => cli.out.some((said) => said.startsWith(line));

let server: Serving;
beforeAll(async () => {
  checkBuild();
  server = await serve("memory:", ["--limits", "shortestTtlMs=100"]);
});
afterEach(() => endAll(server.cli));
afterAll(() => endAll());

/** The engines: how to open each, and what must be cleaned up. */
const engines: readonly [name: string, open: () => Promise<[string, () => Promise<unknown>]>][] = [
  ["memory", async () => ["memory:lifecycle", async () => {}]],
  ["http", async () => [server.url, async () => {}]],
  [
    "pglite",
    async () => {
      const { directory, remove } = await freshPglite();
      return [`pglite:${directory}`, remove];
    },
  ],
];

async function endsWhenIdle(source: string): Promise<void> {
  const { code, stdout, stderr } = await program("idle", source).ended;
  expect({ code, stdout, stderr }).toEqual({ code: 0, stdout: "idle", stderr: "" });
}

describe("a program that holds nothing and waits for nothing ends by itself", () => {
  it.each(engines)(
    "%s",
    async (_, open) => {
      const [source, remove] = await open();
      try {
        await endsWhenIdle(source);
        // What the first has left in the directory of PGlite is to be recovered: it has closed nothing.
        await endsWhenIdle(source);
      } finally {
        await remove();
      }
      // PGlite starts a database in each of them.
    },
    120_000,
  );
});

describe("a program that holds a lease goes on", () => {
  it("until it is lost", async () => {
    const { code, stdout } = await program("lost", "memory:").ended;
    expect([code, stdout]).toEqual([0, "lost: expired"]);
  });

  it("until it is released, however often it is renewed", async () => {
    const { code, stdout } = await program("released", server.url).ended;
    expect([code, stdout]).toEqual([0, "alive: true\nreleased"]);
  });
});

describe("a program that waits for a lease goes on", () => {
  it("until it has got it", async () => {
    await using leases = await connect(server.url);
    const lease = await leases.acquire("r");
    const cli = program("waits", server.url);
    await cli.until(hasSaid("waiting"));
    await lease.release();
    const { code, stdout } = await cli.ended;
    expect([code, stdout]).toEqual([0, "waiting\ngot it"]);
  });
});

describe("close()", () => {
  it("stops waiters, lets the work drain, is one promise, and answers nothing after it", async () => {
    await using leases = await connect(server.url);
    await using _held = await leases.acquire("r");
    const { code, stdout } = await program("closes", server.url).ended;
    expect(code).toBe(0);
    expect(stdout.split("\n").sort()).toEqual(
      [
        "the same: true",
        "waiter: CLOSED",
        "work: CLOSED, still ours: true",
        "after: CLOSED",
      ].sort(),
    );
    expect(await leases.get("mine")).toMatchObject({ state: "released" });
  });

  it("closes what was used of tasks, too, in one promise", async () => {
    const client = await connect("memory:");
    const { tasks } = client;
    expect(client.close()).toBe(client.close());
    await client.close();
    await expect(tasks.counts()).rejects.toMatchObject({ code: "CLOSED" });
    const unused = await connect("memory:");
    await unused.close();
    expect(() => unused.tasks).toThrow(expect.objectContaining({ code: "CLOSED" }));
  });
});

describePostgres("on a PostgreSQL server", () => {
  let database: FreshDatabase;
  let leases: Leasehold;
  beforeAll(async () => {
    database = await freshDatabase();
    leases = await connect(database.url);
  });
  afterAll(async () => {
    await leases.close();
    await database.drop();
  });

  it("an idle program ends by itself", () => endsWhenIdle(database.url));

  it("close() leaves no connection behind", async () => {
    const fresh = await freshDatabase();
    const admin = new pg.Client({ connectionString: fresh.url });
    await admin.connect();
    const others = async () => {
      const { rows } = await admin.query(
        "SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'",
      );
      return (rows[0] as { n: number }).n;
    };
    try {
      const [one, two] = [await connect(fresh.url), await connect(fresh.url)];
      await two.tasks.counts();
      expect(await others()).toBeGreaterThan(0);
      await Promise.all([one.close(), two.close()]);
      // The server takes note of it soon after.
      await expect.poll(others).toBe(0);
    } finally {
      await admin.end();
      await fresh.drop();
    }
  });

  it.each(["SIGTERM", "SIGINT"] as const)(
    "%s lets the work drain, returns tasks, and ends the program by that signal",
    async (signal) => {
      const cli = program("drains", database.url);
      await cli.until(hasSaid("working"));
      expect(await leases.get("r")).toMatchObject({ state: "live" });
      cli.kill(signal);
      const { code, stdout, stderr } = await cli.ended;
      expect({ code, stderr }).toEqual({ code: signal, stderr: "" });
      expect(stdout.split("\n").slice(1).sort()).toEqual([
        "task: stopping",
        "work: done",
        "work: stopping",
      ]);
      expect(await leases.get("r")).toMatchObject({ state: "released" });
      await using tasksClient = await connect(database.url);
      const tasks = tasksClient.tasks;
      const { items } = await tasks.list({ limit: 1 });
      expect(items).toMatchObject([{ state: "pending", failures: 0, crashes: 0 }]);
      await tasks.cancel(items[0]?.id ?? "");
    },
  );

  it("a shell sees 128 and the signal's number", async () => {
    const command = `"${process.execPath}" "${script}" drains "${database.url}"; echo "code $?"`;
    const shell = spawn("sh", ["-c", command], { stdio: ["ignore", "pipe", "inherit"] });
    let out = "";
    shell.stdout.on("data", (chunk: Buffer) => {
      out += chunk.toString();
      const [, pid] = /working (\d+)/.exec(out) ?? [];
      if (pid !== undefined && !out.includes("stopping")) process.kill(Number(pid), "SIGINT");
    });
    await new Promise((resolve) => shell.once("close", resolve));
    expect(out).toMatch(/\ncode 130\n$/);
  });
});

describe("signals", () => {
  it("a second one ends at once what does not stop", async () => {
    await using leases = await connect(server.url);
    const cli = program("stubborn", server.url);
    await cli.until(hasSaid("working"));
    cli.kill("SIGTERM");
    await cli.until(hasSaid("stopping"));
    // One that follows at once counts as the same; so it is sent until it counts as another.
    const again = setInterval(() => cli.kill("SIGTERM"), 50);
    const { code } = await cli.ended;
    clearInterval(again);
    expect(code).toBe("SIGTERM");
    // Nothing was released: the store frees it in time, or an operator does.
    expect(await leases.get("r")).toMatchObject({ state: "live" });
    await leases.revoke("r", { free: "now" });
  });

  it("leave the end to others who handle them too", async () => {
    const cli = program("others", server.url);
    await cli.until(hasSaid("working"));
    const { code, stdout } = await cli.end("SIGTERM");
    expect([code, stdout]).toEqual([3, "working\nown handler"]);
    await using leases = await connect(server.url);
    expect(await leases.get("r")).toMatchObject({ state: "released" });
  });

  it("are handled only when asked, by one handler each, until all have closed", async () => {
    const { code, stdout } = await program("counts", "memory:").ended;
    expect([code, stdout]).toEqual([0, "0 0\n1 1\n0 1\n0 0"]);
  });

  it("are refused where there is no process", async () => {
    const { process } = globalThis;
    // As in browsers, and as bundlers put it.
    for (const value of [undefined, { env: {}, on: () => {} }]) {
      Object.defineProperty(globalThis, "process", { value, configurable: true, writable: true });
      try {
        await expect(connect("memory:", { closeOnSignals: true })).rejects.toMatchObject({
          code: "INVALID_OPTION",
          path: "closeOnSignals",
        });
      } finally {
        Object.defineProperty(globalThis, "process", {
          value: process,
          configurable: true,
          writable: true,
          enumerable: false,
        });
      }
    }
  });
});
