import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chmod, chown, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freePort } from "../../../../../tests/support/engines/free-port.js";
import {
  describePostgres,
  type PostgresServer,
  startPostgres,
} from "../../../../../tests/support/engines/postgres.js";
import { findEngine } from "../../../../../tests/support/engines/postgres-engine.js";
import { newLeaseId, systemEnv } from "../../env/index.js";
import { openPostgres, type PostgresDatabase } from "./index.js";

function hasPgBouncer(): boolean {
  try {
    execFileSync("pgbouncer", ["--version"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

const NAME = "a server behind PgBouncer in transaction mode";
if (hasPgBouncer()) describePostgres(NAME, exercise);
else describe.skip(`${NAME} (skipped: pgbouncer is not installed on this machine)`, exercise);

function exercise() {
  let server: PostgresServer;
  let folder: string;
  let bouncer: ChildProcess;
  let url: string;
  const databases: PostgresDatabase[] = [];

  beforeAll(async () => {
    server = await startPostgres();
    const { username, password } = new URL(server.url);
    const { user } = await findEngine();
    folder = await mkdtemp(join(tmpdir(), "leasehold-pgbouncer-"));
    const port = await freePort();
    const target = `host=127.0.0.1 port=${server.port} user=${username} password=${password}`;
    await writeFile(
      join(folder, "pgbouncer.ini"),
      `[databases]
       pooled = ${target} dbname=postgres
       [pgbouncer]
       listen_addr = 127.0.0.1
       listen_port = ${port}
       unix_socket_dir =
       auth_type = any
       pool_mode = transaction
       default_pool_size = 3`.replaceAll(/^ +/gm, ""),
    );
    await chmod(folder, 0o755);
    if (user.uid !== undefined && user.gid !== undefined) await chown(folder, user.uid, user.gid);
    const child = spawn("pgbouncer", [join(folder, "pgbouncer.ini")], { ...user, stdio: "pipe" });
    bouncer = child;
    await new Promise<void>((resolve, reject) => {
      let log = "";
      createInterface(child.stderr).on("line", (line) => {
        log += `${line}\n`;
        if (line.includes("process up")) resolve();
      });
      child.once("exit", () => reject(new Error(`pgbouncer did not start: ${log}`)));
    });
    url = `postgres://postgres@127.0.0.1:${port}/pooled`;
    // Several clients open a database without a schema at once.
    databases.push(
      ...(await Promise.all([0, 1, 2, 3].map(() => openPostgres({ url }, systemEnv)))),
    );
  });
  afterAll(async () => {
    await Promise.all(databases.map((database) => database.close()));
    const ended = new Promise((resolve) => bouncer.once("exit", resolve));
    bouncer.kill("SIGKILL");
    await ended;
    await rm(folder, { recursive: true });
    await server.remove();
  });

  it("is detected to deliver no notifications, and is polled", () => {
    for (const { leases } of databases) expect(leases.capabilities.watch).toBe("poll");
  });

  it.each([
    ["?options=-c%20work_mem%3D1MB", /unsupported startup parameter: options; remove it/],
    ["?statement_timeout=5000", /unsupported startup parameter: statement_timeout; remove it/],
  ])("refuses %s for good, with the remedy", async (query, message) => {
    await expect(openPostgres({ url: `${url}${query}` }, systemEnv)).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(message) as string,
    });
  });

  it("refuses a database that it does not know", async () => {
    const other = url.replace("/pooled", "/other");
    await expect(openPostgres({ url: other }, systemEnv)).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringMatching(
        /(no such database: other|bouncer config error); correct the database/,
      ) as string,
    });
  });

  it("keeps leases with more clients than sessions", async () => {
    for (let round = 0; round < 20; round++) {
      const requests = databases.map((_, instance) => ({
        namespace: "n",
        resource: `round ${round}`,
        leaseId: newLeaseId(systemEnv.random),
        holder: `instance ${instance}`,
        ttlMs: 60_000,
        queueMs: 1_000,
      }));
      const outcomes = await Promise.all(
        databases.map(({ leases }, instance) =>
          leases.acquire(requests.slice(instance, instance + 1)),
        ),
      );
      const winners = requests.filter((_, at) => outcomes[at]?.[0]?.status === "acquired");
      expect(winners).toHaveLength(1);
      const other = databases[(round + 1) % databases.length]?.leases;
      expect(await other?.renew(winners)).toMatchObject([{ status: "renewed" }]);
      expect(await other?.release(winners)).toEqual([{ status: "released" }]);
    }
  });
}
