import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../../../../../tests/support/postgres.js";
import { systemEnv } from "../../env/index.js";

import { FENCE_TABLE } from "../../fence/index.js";
import { newTaskOf } from "../../testing/task-suite/new-task.js";
import { poolSql } from "./connection-pool.js";
import { migratePostgres, openPostgres, planPostgres } from "./index.js";
import { migrate } from "./migrate.js";
import { MIGRATIONS } from "./migrations.js";

describePostgres("migrations", () => {
  let database: FreshDatabase;
  let pool: pg.Pool;
  beforeAll(async () => {
    database = await freshDatabase();
    pool = new pg.Pool({ connectionString: database.url });
  });
  afterAll(async () => {
    await pool.end();
    await database.drop();
  });
  const versions = async () => {
    const { rows } = await pool.query("SELECT version, name FROM leasehold.migration ORDER BY 1");
    return rows;
  };
  const all = MIGRATIONS.map(({ name }, index) => ({ version: index + 1, name }));

  it("are done once by 8 instances that start at once", async () => {
    for (let round = 0; round < 5; round++) {
      await pool.query("DROP SCHEMA IF EXISTS leasehold CASCADE");
      const source = { url: database.url };
      const steps = await Promise.all(
        Array.from({ length: 8 }, () => migratePostgres(source, systemEnv)),
      );
      expect(steps.flat().sort()).toEqual(MIGRATIONS.map(({ name }) => name).sort());
      expect(await versions()).toEqual(all);
    }
  });

  it("run once at every default isolation level; the stores reject all but read committed", async () => {
    const levels = ["repeatable read", "serializable"];
    const name = new URL(database.url).pathname.slice(1);
    try {
      for (const level of levels) {
        await pool.query(
          `ALTER DATABASE ${name} SET default_transaction_isolation = '${level}';
           DROP SCHEMA IF EXISTS leasehold CASCADE`,
        );
        const source = { url: database.url };
        const steps = await Promise.all(
          Array.from({ length: 8 }, () => migratePostgres(source, systemEnv)),
        );
        expect(steps.flat().sort()).toEqual(MIGRATIONS.map(({ name }) => name).sort());
        await expect(openPostgres(source, systemEnv)).rejects.toMatchObject({
          code: "STORE_MISCONFIGURED",
          message: expect.stringMatching(
            `"${level}".*ALTER ROLE .* SET default_transaction_isolation = 'read committed'`,
          ),
        });
      }
    } finally {
      await pool.query(`ALTER DATABASE ${name} RESET default_transaction_isolation`);
    }
  });

  it("need no right to change the schema when there is nothing to do", async () => {
    const user = `reader_${process.pid}`;
    await pool.query(`CREATE ROLE ${user} LOGIN PASSWORD 'reader'`);
    const url = new URL(database.url);
    url.username = user;
    url.password = "reader";
    const source = { url: url.href };
    try {
      await expect(openPostgres(source, systemEnv)).rejects.toMatchObject({
        code: "STORE_MISCONFIGURED",
        message: expect.stringContaining("permission denied for schema leasehold"),
      });
      await pool.query(`GRANT USAGE ON SCHEMA leasehold TO ${user};
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA leasehold TO ${user}`);
      const store = await openPostgres(source, systemEnv);
      await store.close();
    } finally {
      await pool.query(`DROP OWNED BY ${user}; DROP ROLE ${user}`);
    }
  });

  it("are taken by the SQL of their plan as by the migration itself", async () => {
    for (const schema of ["leasehold", "planned"]) {
      await pool.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`);
      const source = { url: database.url, schema };
      const before = await planPostgres(source, systemEnv);
      expect(before).toMatchObject(MIGRATIONS.map(({ name }) => ({ name, appliedAt: null })));
      // Planning has created nothing.
      expect(await planPostgres(source, systemEnv)).toEqual(before);
      for (const { sql } of before) await pool.query(sql);
      expect(await migratePostgres(source, systemEnv)).toEqual([]);
      const after = await planPostgres(source, systemEnv);
      expect(after.map(({ name }) => name)).toEqual(before.map(({ name }) => name));
      for (const { appliedAt } of after) {
        expect(Math.abs(Date.parse(appliedAt ?? "") - Date.now())).toBeLessThan(60_000);
      }
      const opened = await openPostgres(source, systemEnv);
      await opened.close();
      // Run again, a step fails as a whole.
      await expect(pool.query(before[0]?.sql ?? "")).rejects.toThrow("already exists");
      await pool.query("ROLLBACK");
    }
  });

  it("number the tasks that exist, and keep them with their attempts and rights", async () => {
    await pool.query("DROP SCHEMA IF EXISTS leasehold CASCADE");
    const sql = poolSql(pool, systemEnv.clock);
    const step = MIGRATIONS.findIndex(({ name }) => name === "tasks by number");
    await migrate(sql, undefined, MIGRATIONS.slice(0, step));
    const user = `writer_${process.pid}`;
    await pool.query(`CREATE ROLE ${user} LOGIN PASSWORD 'writer'; GRANT USAGE ON SCHEMA leasehold TO ${user};
      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA leasehold TO ${user}`);
    // Rows are not in the order of their times, nor the times in that of the ids.
    const ids = [3, 1, 2, 5, 4].map((n) => `0000000${n}-0000-7000-8000-000000000000`);
    const [first = "", second = "", third = "", fourth = "", fifth = ""] = ids;
    for (const [id, state, minute] of [
      [fourth, "pending", 3],
      [second, "done", 1],
      [fifth, "running", 3],
      [third, "dead", 2],
      [first, "done", 0],
    ] as const) {
      await pool.query(
        `INSERT INTO leasehold.task (namespace, id, state, kind, queue, priority, scheduled_at, data, output,
           max_attempts, crash_limit, backoff_ms, max_backoff_ms, created_at, attempt, token, lease_id, holder,
           ttl_ms, started_at, expires_at, finished_at, progress)
         SELECT 'n', $1, $2, 'kind', 'queue', 1, t.at, '{"a":1}', '[2]', 3, 4, 5, 6, t.at, 2, 7, repeat('a', 48),
           'holder', 1000, t.at, t.at + interval '1 day', CASE WHEN $2 IN ('done', 'dead') THEN t.at END, '"p"'
         FROM (SELECT date_trunc('hour', now()) + $3::int * interval '1 minute' AS at) t`,
        [id, state, minute],
      );
      await pool.query(
        `INSERT INTO leasehold.attempt (namespace, task_id, attempt, holder, grant_id, token, started_at, ended_at,
           result, error, ttl_ms) VALUES ('n', $1, 1, 'before', 'g', 6, now(), now(), 'failed', 'e', 9)`,
        [id],
      );
    }
    const before = await pool.query("SELECT * FROM leasehold.task ORDER BY created_at, id");
    await pool.query(
      `INSERT INTO leasehold.claim VALUES ('n', 'c', ARRAY['${first}'::uuid], now())`,
    );
    expect(await migrate(sql)).toEqual(MIGRATIONS.slice(step).map(({ name }) => name));
    const after = await pool.query("SELECT * FROM leasehold.task ORDER BY seq");
    const order = [first, second, third, fifth, fourth];
    expect(after.rows.map(({ id }) => id)).toEqual(order);
    const added = { checkpoint: null, keep_done_ms: null, keep_dead_ms: null, delete_at: null };
    expect(after.rows).toEqual(
      before.rows.map((row, index) => ({
        ...row,
        ...added,
        seq: String(index + 1),
        concurrency_key: null,
        concurrency_limit: null,
        concurrency_any: false,
        version: 1,
      })),
    );
    const url = new URL(database.url);
    url.username = user;
    url.password = "writer";
    const store = await openPostgres({ url: url.href }, systemEnv);
    try {
      const { items } = await store.tasks.list({ namespace: "n" });
      expect(items.map(({ id }) => id)).toEqual(order.toReversed());
      for (const id of ids) {
        const task = await store.tasks.get({ namespace: "n", id });
        expect(task).toMatchObject({ data: { a: 1 }, output: [2], token: 7 });
        expect(task?.attempts[0]).toMatchObject({ attempt: 1, holder: "before", error: "e" });
      }
      const key = { namespace: "n", id: "a text" };
      const [outcome] = await store.tasks.enqueue([newTaskOf(key, { queue: "queue" })]);
      expect(outcome).toEqual({ status: "enqueued", id: "a text" });
      const newest = await store.tasks.list({ namespace: "n", limit: 1 });
      expect(newest.items).toMatchObject([{ id: "a text" }]);
      const claim = {
        namespace: "n",
        claimId: "c",
        holder: "h",
        kinds: null,
        limit: 9,
        ttlMs: 1_000,
      };
      const claimed = await store.tasks.claim({ ...claim, queues: ["queue"] });
      expect(claimed).toMatchObject({ tasks: [{ id: "a text" }, { id: fourth, attempt: 3 }] });
    } finally {
      await store.close();
      await pool.query(`DROP OWNED BY ${user}; DROP ROLE ${user}`);
    }
  });

  it("continue after the last release's step, and leave no partial step", async () => {
    const sql = poolSql(pool, systemEnv.clock);
    const added = { name: "added", statements: ["CREATE TABLE leasehold.added (n int)"] };
    const broken = {
      name: "broken",
      statements: ["CREATE TABLE leasehold.half (n int)", "SELECT 1/0"],
    };
    await expect(migrate(sql, undefined, [...MIGRATIONS, added, broken])).rejects.toThrow(
      "division by zero",
    );
    const added1 = { version: MIGRATIONS.length + 1, name: "added" };
    expect(await versions()).toEqual([...all, added1]);
    const { rows } = await pool.query("SELECT to_regclass('leasehold.half') AS half");
    expect(rows).toEqual([{ half: null }]);
  });

  it("are rejected if a newer release made them", async () => {
    await expect(openPostgres({ url: database.url }, systemEnv)).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      retryable: false,
      message: expect.stringMatching(/at version \d+, set by a newer release; .*update leasehold/),
    });
  });
});

it("create the same fence table that the fence creates by itself", () => {
  const words = (text: string) => text.replaceAll(/\s+/g, " ");
  for (const step of ["fence", "fence function"]) {
    const migration = MIGRATIONS.find(({ name }) => name === step);
    expect(words(FENCE_TABLE)).toContain(words(migration?.statements.join(";") ?? "none"));
  }
});
