import { randomBytes } from "node:crypto";
import { inspect } from "node:util";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { freePort } from "../../../../../tests/support/engines/free-port.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
  type PostgresServer,
  startPostgres,
} from "../../../../../tests/support/engines/postgres.js";
import { type Env, systemEnv } from "../../env/index.js";
import { LeaseholdError } from "../../lease/index.js";
import { manualClock } from "../../testing/index.js";
import type { Sql } from "./connection.js";
import { pgliteBackend } from "./connection-pglite.js";
import { Prepared, poolSql } from "./connection-pool.js";
import { serverBackend } from "./connection-server.js";
import { openPostgres } from "./index.js";

describePostgres("queries over a pool", () => {
  let fresh: FreshDatabase;
  let pool: pg.Pool;
  let sql: Sql;
  let admin: pg.Client;
  beforeAll(async () => {
    fresh = await freshDatabase();
    pool = new pg.Pool({ connectionString: fresh.url, max: 2 });
    pool.on("error", () => {});
    sql = poolSql(pool, systemEnv.clock);
    admin = new pg.Client({ connectionString: fresh.url });
    await admin.connect();
  });
  afterAll(async () => {
    await admin.end();
    await pool.end();
    await fresh.drop();
  });
  const waitUntil = async (condition: string) => {
    for (;;) {
      const { rows } = await admin.query(`SELECT ${condition} AS so FROM pg_stat_activity`);
      if (rows[0].so) return;
    }
  };

  it("give up after their timeout, and do not use that connection again", async () => {
    const [before] = await sql.query("SELECT pg_backend_pid() AS pid");
    const late = sql.query("SELECT pg_sleep(60)::text", [], { timeoutMs: 50 });
    await expect(late).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      outcome: "unknown",
      message: expect.stringContaining("PostgreSQL: no response within 50 ms"),
    });
    const [after] = await sql.query("SELECT pg_backend_pid() AS pid");
    expect(after).not.toEqual(before);
    expect([pool.totalCount, pool.idleCount, pool.waitingCount]).toEqual([1, 1, 0]);
    await admin.query("SELECT pg_terminate_backend($1)", [before?.pid]);
  });

  it("have no parallel workers, which would take processors from renewals", async () => {
    const prepared = new Prepared();
    prepared.enable();
    const own = new pg.Pool({ connectionString: fresh.url, max: 1 });
    const workers = "SELECT current_setting('max_parallel_workers_per_gather') AS most";
    expect(await poolSql(own, systemEnv.clock, prepared).query(workers)).toEqual([{ most: "0" }]);
    await own.end();
  });

  it("end in the database soon after their connection was given up", async ({ skip }) => {
    const [{ version } = { version: 0 }] = await sql.query<{ version: number }>(
      "SELECT current_setting('server_version_num')::int AS version",
    );
    skip(version < 140_000, "PostgreSQL looks after its clients only since version 14");
    const prepared = new Prepared();
    prepared.enable();
    const clock = manualClock();
    // The default of a server.
    const options = "-c client_connection_check_interval=0";
    const own = new pg.Pool({ connectionString: fresh.url, max: 1, options });
    own.on("error", () => {});
    const late = poolSql(own, clock, prepared).query("SELECT pg_sleep(600)::text AS abandoned");
    const refused = expect(late).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    const running =
      "bool_or(state = 'active' AND query = 'SELECT pg_sleep(600)::text AS abandoned')";
    await waitUntil(running);
    await clock.advance(10_000);
    await refused;
    await waitUntil(`NOT ${running}`);
    await own.end();
  });

  it("are planned once, and go on where their plans are gone or taken", async () => {
    const prepared = new Prepared();
    const own = new pg.Pool({ connectionString: fresh.url, max: 1 });
    const kept = poolSql(own, systemEnv.clock, prepared);
    const text = "SELECT $1::int + 1 AS sum";
    const names = () => kept.query("SELECT name FROM pg_prepared_statements WHERE name LIKE 'l%'");
    expect(await kept.query(text, [1])).toEqual([{ sum: 2 }]);
    expect(await names()).toEqual([]);
    prepared.enable();
    expect(await kept.query(text, [2])).toEqual([{ sum: 3 }]);
    expect((await names()).length).toBeGreaterThan(0);
    // Simulates a pooler that assigns sessions per statement.
    await own.query("DEALLOCATE ALL");
    expect(await kept.query(text, [3])).toEqual([{ sum: 4 }]);
    expect(await kept.query(text, [4])).toEqual([{ sum: 5 }]);
    await own.end();
  });

  it("report applied no when no connection was free in time", async () => {
    const clients = [await pool.connect(), await pool.connect()];
    const late = sql.query("CREATE TABLE never_sent (n int)", [], { timeoutMs: 50 });
    await expect(late).rejects.toMatchObject({
      outcome: "none",
      message: expect.stringContaining("PostgreSQL: no free connection within 50 ms"),
    });
    for (const client of clients) client.release();
    await vi.waitFor(() => expect([pool.idleCount, pool.waitingCount]).toEqual([2, 0]));
    expect(await sql.query("SELECT to_regclass('never_sent')::text AS t")).toEqual([{ t: null }]);
  });

  it("may have taken effect when their session ended meanwhile; the next one works", async () => {
    const ended = expect(sql.query("SELECT pg_sleep(60)::text AS ended")).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      outcome: "unknown",
    });
    await waitUntil(
      "count(*) FILTER (WHERE query LIKE '%AS ended%' AND pid <> pg_backend_pid()) > 0",
    );
    await admin.query(
      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%AS ended%' AND pid <> pg_backend_pid()",
    );
    await ended;
    expect(await sql.query("SELECT 1 AS n")).toEqual([{ n: 1 }]);
  });

  it("that the server rejects have no effect, and keep their connection", async () => {
    const [before] = await sql.query("SELECT pg_backend_pid() AS pid");
    await expect(sql.query("SELECT 1/0")).rejects.toMatchObject({ outcome: "none" });
    await expect(
      sql.transaction(async (session) => {
        await session.query("CREATE TABLE undone (n int)");
        await session.query("SELECT 1/0");
      }),
    ).rejects.toMatchObject({ outcome: "none" });
    expect(await sql.query("SELECT pg_backend_pid() AS pid")).toEqual([before]);
  });

  it("are left alone by what the user tells the driver about types", async () => {
    const parser = pg.types.getTypeParser(20);
    pg.types.setTypeParser(20, BigInt);
    pg.types.setTypeParser(701, (text) => `float ${text}`);
    try {
      const text = "SELECT 5::bigint AS big, 1.5::float8 AS float";
      expect(await sql.query(text)).toEqual([{ big: 5, float: 1.5 }]);
    } finally {
      pg.types.setTypeParser(20, parser);
      pg.types.setTypeParser(701, Number.parseFloat);
    }
  });

  it("after the pool has ended say that it is closed", async () => {
    const own = new pg.Pool({ connectionString: fresh.url });
    await own.end();
    const query = poolSql(own, systemEnv.clock).query("SELECT 1");
    await expect(query).rejects.toMatchObject({ code: "CLOSED" });
  });
});

describePostgres("opening a server", () => {
  // Starts its own server, because TEST_POSTGRES_URL may lead to one that requires no password.
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());
  const open = (change: (url: URL) => void) => {
    const url = new URL(server.url);
    change(url);
    return openPostgres({ url }, systemEnv);
  };

  it("reports what is wrong with its address, with a remedy", async () => {
    const port = await freePort();
    const cases: [(url: URL) => void, object][] = [
      [(url) => (url.password = "wrong"), { message: expect.stringMatching(/password/) }],
      [
        (url) => (url.pathname = "/missing_database"),
        { message: expect.stringMatching(/"missing_database" does not exist; create/) },
      ],
    ];
    for (const [change, expected] of cases) {
      const misconfigured = { code: "STORE_MISCONFIGURED", retryable: false, ...expected };
      await expect(open(change)).rejects.toMatchObject(misconfigured);
    }
    await expect(openPostgres({ url: "postgres://[" }, systemEnv)).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
    });
    const refused = open((url) => (url.port = `${port}`));
    await expect(refused).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      outcome: "none",
      message: expect.stringContaining("ECONNREFUSED"),
    });
  });
});

describePostgres("the password of a server", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  it("appears in no error and no log, whatever fails", async () => {
    const password = `secret${randomBytes(8).toString("hex")}`;
    const said: unknown[] = [];
    const log = (fields: object, message: string) => void said.push([fields, message]);
    const env: Env = {
      ...systemEnv,
      logger: { debug: log, info: log, warn: log, error: log },
    };
    const errorOf = async (promise: Promise<unknown>) => {
      const [result] = await Promise.allSettled([promise]);
      if (result.status === "fulfilled") return expect.unreachable();
      expect(result.reason).toBeInstanceOf(LeaseholdError);
      return result.reason as unknown;
    };
    const admin = new pg.Client({ connectionString: server.url });
    await admin.connect();
    await admin.query(`CREATE ROLE app SUPERUSER LOGIN PASSWORD '${password}'`);
    await admin.end();

    const authority = `app:${password}@127.0.0.1`;
    const port = await freePort();
    for (const url of [
      `postgres://${authority}:port/postgres`,
      `postgres://${authority}:${server.port}/%zz`,
      `postgres://app:${password}%zz@127.0.0.1:${server.port}/postgres`,
      `postgres://stranger:${password}@127.0.0.1:${server.port}/postgres`,
      `postgres://${authority}:${server.port}/missing_database`,
      `postgres://${authority}:${server.port}/postgres?watch=${password}`,
      `postgres://${authority}:${server.port}/postgres?sslcert=/missing`,
      `postgres://${authority}:${server.port}/postgres?sslmode=require`,
      `postgres://${authority}:${port}/postgres`,
    ]) {
      said.push(await errorOf(openPostgres({ url }, env)));
    }
    const url = `postgres://${authority}:${server.port}/postgres`;
    const database = await openPostgres({ url }, env);
    const { general } = database.connections.backend;
    const failing = general.query("SELECT 1/0");
    said.push(await errorOf(failing));
    await server.kill9();
    await vi.waitFor(
      () => {
        const messages = JSON.stringify(said.map((one) => Array.isArray(one) && one[1]));
        expect(messages).toContain("an idle connection was lost");
        expect(messages).toContain("the notification connection was lost");
        expect(messages).toContain("the notification connection is not open yet");
      },
      { timeout: 20_000 },
    );
    said.push(await errorOf(general.query("SELECT 1")));
    await database.close();
    said.push(await errorOf(general.query("SELECT 1")));
    said.push(database.connections.backend.name);

    for (const one of said) {
      expect(inspect(one, { depth: Infinity, maxStringLength: Infinity })).not.toContain(password);
    }
  });
});

describePostgres("a server that is killed and comes back", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  it("fails calls with applied no while it is unavailable, and then recovers", async () => {
    const backend = await serverBackend(server.url, systemEnv);
    const lanes = [backend.general, backend.control];
    for (const sql of lanes) await sql.query("SELECT 1");
    await server.kill9();
    // The idle connections are dead. A lane discovers that by an event of each or by using it, and in which
    // order depends on the machine: until then its outcomes may be unknown.
    for (const sql of lanes) {
      await vi.waitFor(() =>
        expect(sql.query("SELECT 1")).rejects.toMatchObject({
          code: "STORE_UNAVAILABLE",
          retryable: true,
          outcome: "none",
        }),
      );
    }
    await server.start();
    for (const sql of lanes) expect(await sql.query("SELECT 1 AS n")).toEqual([{ n: 1 }]);
    await backend.close();
  });
});

describe("a driver that cannot be loaded", () => {
  it("is named with the cause", async () => {
    const broken = () => {
      throw new Error("its build is broken");
    };
    vi.doMock("pg", broken);
    vi.doMock("@electric-sql/pglite", broken);
    try {
      for (const [open, name] of [
        [() => serverBackend("postgres://127.0.0.1", systemEnv), "pg"],
        [() => pgliteBackend("", systemEnv), "@electric-sql/pglite"],
      ] as const) {
        await expect(open()).rejects.toMatchObject({
          code: "STORE_MISCONFIGURED",
          message: expect.stringMatching(
            `^the package ${name} is installed but cannot be loaded: `,
          ),
          cause: expect.objectContaining({ cause: new Error("its build is broken") }),
        });
      }
    } finally {
      vi.doUnmock("pg");
      vi.doUnmock("@electric-sql/pglite");
    }
  });
});
