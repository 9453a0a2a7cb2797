import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { PGlite } from "@electric-sql/pglite";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openPglite } from "../../../../../tests/support/engines/pglite.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../../../../../tests/support/engines/postgres.js";
import { compile } from "../../../../../tests/support/processes/compile.js";
import { grantIdOf, systemEnv } from "../../env/index.js";
import { openPostgres, type PostgresDatabase } from "./index.js";
import { migrate } from "./migrate.js";

const VALUES = `SELECT $1::text AS text, $2::float8 AS float, $3::int AS int, $4::bool AS bool,
  $5::text AS nothing, array_to_string($6::text[], '|', 'null') AS texts,
  (SELECT sum(n)::float8 FROM unnest($7::float8[]) AS n) AS sum,
  array_to_string($8::bool[], '|') AS bools, $9::json AS json, $10::bigint AS big,
  '2020-01-01T00:00:00Z'::timestamptz::text ~ '^20' AS time, count(*) AS count FROM pg_class WHERE false`;

function exercise(open: () => Promise<PostgresDatabase>) {
  let database: PostgresDatabase;
  beforeAll(async () => {
    database = await open();
  });
  afterAll(() => database?.close());

  it("passes values in and out alike", async () => {
    const { general } = database.connections.backend;
    const texts = ["a,b", null, '"q\\', "", "{}", "NULL", "ü🙂"];
    const [row] = await general.query(VALUES, [
      "te'xt",
      1795171802123456,
      42,
      true,
      null,
      texts,
      [1.5, 2],
      [true, false],
      '[{"a":"1"}]',
      2 ** 53 - 1,
    ]);
    expect(row).toEqual({
      text: "te'xt",
      float: 1795171802123456,
      int: 42,
      bool: true,
      nothing: null,
      texts: texts.map((text) => text ?? "null").join("|"),
      sum: 3.5,
      bools: "t|f",
      json: '[{"a":"1"}]',
      big: 2 ** 53 - 1,
      time: true,
      count: 0,
    });
  });

  it("undoes a transaction that fails", async () => {
    const { general } = database.connections.backend;
    const failing = general.transaction(async (session) => {
      await session.query("CREATE TABLE undone (n int)");
      await session.query("SELECT 1/0");
    });
    await expect(failing).rejects.toMatchObject({ code: "INVALID_OPTION", outcome: "none" });
    expect(await general.query("SELECT to_regclass('undone')::text AS t")).toEqual([{ t: null }]);
  });

  it("returns the replaced grant, as views showed it", async () => {
    const key = { namespace: "replaced", resource: "r" };
    const asked = (leaseId: string) => [
      { ...key, leaseId, holder: `h ${leaseId}`, ttlMs: 60_000, metadata: '{"a":"b"}' },
    ];
    const { leases } = database;
    expect(await leases.acquire(asked("one"))).toMatchObject([{ status: "acquired" }]);
    await leases.release([{ ...key, leaseId: "one" }]);
    const [before] = await leases.get([key]);
    expect(await leases.acquire(asked("two"), { returnReplaced: true })).toMatchObject([
      { replaced: before },
    ]);
    expect((await leases.acquire(asked("two")))[0]).not.toHaveProperty("replaced");
  });

  it("is migrated, and receives its own notifications", async () => {
    expect(await migrate(database.connections.backend.general)).toEqual([]);
    expect(database.connections.listener.mode).toBe("push");
  });
}

describePostgres("a server by URL", () => {
  let fresh: FreshDatabase;
  beforeAll(async () => {
    fresh = await freshDatabase();
  });
  afterAll(() => fresh.drop());
  exercise(() => openPostgres({ url: fresh.url }, systemEnv));
});

describePostgres("an open server store", () => {
  it("does not keep a process alive that has nothing else to do", async () => {
    const source = new URL(
      "../../../../../tests/support/processes/acquire-and-idle.ts",
      import.meta.url,
    );
    const [program, fresh] = await Promise.all([compile(source), freshDatabase()]);
    try {
      const { stdout } = await promisify(execFile)(process.execPath, [program.path, fresh.url]);
      expect(stdout).toBe("acquired\n");
    } finally {
      await Promise.all([program.remove(), fresh.drop()]);
    }
  });
});

describePostgres("a server over the user's pool", () => {
  let fresh: FreshDatabase;
  let pool: pg.Pool;
  beforeAll(async () => {
    fresh = await freshDatabase();
    pool = new pg.Pool({ connectionString: fresh.url });
  });
  afterAll(async () => {
    // Closing the store leaves the pool open, with nothing checked out.
    expect((await pool.query("SELECT 1 AS n")).rows).toEqual([{ n: 1 }]);
    await pool.end();
    await fresh.drop();
  });
  exercise(() => openPostgres({ pool }, systemEnv));
});

describe("PGlite in memory", () => {
  exercise(() => openPostgres({ directory: "" }, systemEnv));
});

describe("the user's PGlite", () => {
  let db: PGlite;
  beforeAll(async () => {
    // The user's parsers must not affect the store's statements.
    db = await openPglite({ parsers: { 20: BigInt, 701: String } });
  });
  afterAll(async () => {
    // Closing the store leaves the instance open.
    expect((await db.query("SELECT 1 AS n")).rows).toEqual([{ n: 1 }]);
    await db.close();
  });
  exercise(() => openPostgres({ db }, systemEnv));

  it("is shared by several stores, which receive each other's notifications", async () => {
    const [one, other] = [
      await openPostgres({ db }, systemEnv),
      await openPostgres({ db }, systemEnv),
    ];
    const key = { namespace: "shared", resource: "r" };
    const request = { ...key, leaseId: "l", holder: "one", ttlMs: 60_000 };
    await one.leases.acquire([request]);
    const rival = { ...request, leaseId: "m", holder: "other", queueMs: 60_000 };
    expect(await other.leases.acquire([rival])).toMatchObject([{ status: "held", holder: "one" }]);
    const events = other.leases.watch("shared", { signal: new AbortController().signal });
    const reader = events[Symbol.asyncIterator]();
    expect((await reader.next()).value).toEqual({ type: "resync" });
    const next = reader.next();
    await one.leases.release([request]);
    expect((await next).value).toEqual({
      type: "changed",
      ...key,
      wakes: grantIdOf(rival.leaseId),
    });
    await one.close();
    expect(await other.leases.acquire([rival])).toMatchObject([{ status: "acquired" }]);
    await other.close();
  });

  it("may be closed by its owner before the store is", async () => {
    const own = await openPglite();
    const store = await openPostgres({ db: own }, systemEnv);
    await own.close();
    const [outcome] = await store.leases.acquire([
      { namespace: "n", resource: "r", leaseId: "l", holder: "h", ttlMs: 1_000 },
    ]);
    expect(outcome).toMatchObject({ status: "failed" });
    await store.close();
  });
});

describe("PGlite in a directory", () => {
  let directory: string;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), "leasehold-pglite-"));
  });
  afterAll(() => rm(directory, { recursive: true }));

  it("keeps what was written, and is locked while it is open", async () => {
    const first = await openPostgres({ directory }, systemEnv);
    await first.connections.backend.general.query("CREATE TABLE kept AS SELECT 42 AS n");
    await expect(openPostgres({ directory }, systemEnv)).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringContaining(`open in process ${process.pid}`),
    });
    await first.close();
    const second = await openPostgres({ directory }, systemEnv);
    const rows = await second.connections.backend.general.query("SELECT n FROM kept");
    expect(rows).toEqual([{ n: 42 }]);
    await second.close();
  });
});
