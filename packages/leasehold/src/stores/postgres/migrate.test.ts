import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../../../../../tests/support/engines/postgres.js";
import { failuresOfAllCalls } from "../../../../../tests/support/engines/postgres-all-calls.js";
import { systemEnv } from "../../env/index.js";
import { FENCE_TABLE } from "../../fence/index.js";
import { FENCE_TABLES } from "./baseline-control.js";
import type { Session, Sql } from "./connection.js";
import { poolSql, sessionOf } from "./connection-pool.js";
import { migratePostgres, openPostgres, planPostgres } from "./index.js";
import { migrate } from "./migrate.js";
import { BASELINE, MIGRATIONS, type Migration } from "./migrations.js";

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
  const all = MIGRATIONS.map(({ version, name }) => ({ version, name }));
  const last = all.at(-1)?.version ?? 0;
  /** A step of a later release. */
  const later = (
    name: string,
    compatibleFrom: number,
    after: readonly Migration[] = MIGRATIONS,
  ) => {
    const version = (after.at(-1)?.version ?? 0) + 1;
    return {
      version,
      name,
      compatibleFrom,
      statements: [`CREATE TABLE leasehold.${name} (n int)`],
    };
  };

  const fresh = async (): Promise<Sql> => {
    await pool.query("DROP SCHEMA IF EXISTS leasehold CASCADE");
    return poolSql(pool, systemEnv.clock);
  };

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
      const beganMs = Date.now();
      const before = await planPostgres(source, systemEnv);
      expect(before).toMatchObject(MIGRATIONS.map(({ name }) => ({ name, appliedAt: null })));
      // Planning has created nothing.
      expect(await planPostgres(source, systemEnv)).toEqual(before);
      for (const { sql } of before) await pool.query(sql);
      expect(await migratePostgres(source, systemEnv)).toEqual([]);
      const after = await planPostgres(source, systemEnv);
      expect(after.map(({ name }) => name)).toEqual(before.map(({ name }) => name));
      for (const { appliedAt } of after) {
        expect(Date.parse(appliedAt ?? "")).toBeGreaterThan(beganMs - 60_000);
        expect(Date.parse(appliedAt ?? "")).toBeLessThan(Date.now() + 60_000);
      }
      const opened = await openPostgres(source, systemEnv);
      await opened.close();
      // Run again, a step fails as a whole.
      await expect(pool.query(before[0]?.sql ?? "")).rejects.toThrow("already exists");
      await pool.query("ROLLBACK");
    }
  });

  it("continue after the last release's step, and leave no partial step", async () => {
    const sql = await fresh();
    const added = later("added", last);
    const statements = ["CREATE TABLE leasehold.half (n int)", "SELECT 1/0"];
    const broken = { ...later("broken", last, [added]), statements };
    await expect(migrate(sql, undefined, [...MIGRATIONS, added, broken])).rejects.toThrow(
      "division by zero",
    );
    expect(await versions()).toEqual([...all, { version: last + 1, name: "added" }]);
    const { rows } = await pool.query("SELECT to_regclass('leasehold.half') AS half");
    expect(rows).toEqual([{ half: null }]);
  });

  it("of a newer release are no reason to refuse while all of them suit this one", async () => {
    const source = { url: database.url };
    const sql = await fresh();
    await migrate(sql);
    const statements = [
      `DO $$
       DECLARE
         name text;
       BEGIN
         FOR name IN SELECT relname FROM pg_class
           WHERE relnamespace = 'leasehold'::regnamespace AND relkind = 'r'
         LOOP
           EXECUTE format('ALTER TABLE leasehold.%I ADD COLUMN added_later text', name);
         END LOOP;
       END $$`,
    ];
    const one = { ...later("one", last), statements };
    const two = later("two", last, [one]);
    await migrate(sql, undefined, [...MIGRATIONS, one, two]);
    expect(await migratePostgres(source, systemEnv)).toEqual([]);
    const plan = await planPostgres(source, systemEnv);
    expect(plan.map(({ name }) => name)).toEqual([...all.map(({ name }) => name), "one", "two"]);
    expect(plan.every(({ appliedAt }) => appliedAt !== null)).toBe(true);
    // A column more in each table is in the way of no statement.
    expect(await failuresOfAllCalls(source)).toEqual([]);
  });

  it("of a newer release that do not suit this one are named, whatever came after them", async () => {
    const sql = await fresh();
    const gone = later("gone", last + 1);
    const after = later("after", last + 1, [gone]);
    await migrate(sql, undefined, [...MIGRATIONS, gone, after]);
    const refused = expect.objectContaining({
      code: "STORE_MISCONFIGURED",
      retryable: false,
      message: expect.stringMatching(
        new RegExp(
          `at version ${last + 2}, set by a newer release: since its step "gone" it needs ` +
            `code of version ${last + 1} or newer, and this release has ${last}: update leasehold`,
        ),
      ) as string,
    });
    const source = { url: database.url };
    for (const act of [openPostgres, migratePostgres, planPostgres]) {
      await expect(act(source, systemEnv)).rejects.toEqual(refused);
    }
    // The release before that one goes on.
    expect(await migrate(sql, undefined, [...MIGRATIONS, gone])).toEqual([]);
  });

  it("that a transaction never lets through are named in the end", async () => {
    await migrate(await fresh());
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    const session = sessionOf(client);
    // The time that passes between two tries is left out.
    const hurried: Session = {
      query: (text, values) => {
        if (text.includes("pg_sleep")) return Promise.resolve([]);
        return session.query(text.replace("250ms", "1ms"), values);
      },
    };
    const sql: Sql = {
      query: hurried.query,
      async transaction(work) {
        await client.query("BEGIN");
        try {
          return await work(hurried);
        } finally {
          await client.query("ROLLBACK");
        }
      },
    };
    const inTheWay = await pool.connect();
    await inTheWay.query("BEGIN; LOCK TABLE leasehold.lease IN ROW SHARE MODE");
    const statements = ["ALTER TABLE leasehold.lease ADD COLUMN later int"];
    const steps = [...MIGRATIONS, { ...later("later", last), statements }];
    await expect(migrate(sql, undefined, steps)).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching('the step "later" .* run `leasehold migrate`') as string,
    });
    await inTheWay.query("ROLLBACK");
    inTheWay.release();
    await client.end();
  });

  it("that do not suit a program which is open are the reason that its calls fail with", async () => {
    await fresh();
    const open = await openPostgres({ url: database.url }, systemEnv);
    await pool.query("ALTER TABLE leasehold.lease RENAME COLUMN holder TO owner");
    const lease = { namespace: "n", resource: "r", leaseId: "0".repeat(48), holder: "h" };
    const [outcome] = await open.leases.acquire([{ ...lease, ttlMs: 60_000 }]);
    expect(outcome).toMatchObject({
      status: "failed",
      applied: "no",
      retryable: false,
      error: { message: expect.stringContaining("or update leasehold if a newer release has") },
    });
    await open.close();
  });

  it("go on from the last version of development, and refuse an earlier one", async () => {
    const source = { url: database.url };
    const sql = await fresh();
    const [baseline, ...steps] = MIGRATIONS.map(({ name }) => name);
    expect(await migrate(sql, undefined, MIGRATIONS.slice(0, 1))).toEqual([baseline]);
    await pool.query(`ALTER TABLE leasehold.migration DROP COLUMN compatible_from;
      DELETE FROM leasehold.migration;
      INSERT INTO leasehold.migration
      SELECT n, 'step ' || n, '2026-01-01T00:00:00Z' FROM generate_series(1, ${BASELINE}) n`);
    expect(await migratePostgres(source, systemEnv)).toEqual(steps);
    const [first, ...others] = await planPostgres(source, systemEnv);
    expect(first).toMatchObject({ name: baseline, appliedAt: "2026-01-01T00:00:00.000Z" });
    expect(others).toMatchObject(steps.map((name) => ({ name })));
    const added = later("added", last);
    expect(await migrate(sql, undefined, [...MIGRATIONS, added])).toEqual(["added"]);
    expect(await migratePostgres(source, systemEnv)).toEqual([]);

    await pool.query(`DELETE FROM leasehold.migration WHERE version >= ${BASELINE}`);
    for (const act of [openPostgres, migratePostgres, planPostgres]) {
      await expect(act(source, systemEnv)).rejects.toMatchObject({
        code: "STORE_MISCONFIGURED",
        message: expect.stringMatching(
          `at version ${BASELINE - 1}, from before the first release.*DROP SCHEMA leasehold CASCADE`,
        ) as string,
      });
    }
  });

  it("that a user may not take are named, with the role that may", async () => {
    const user = `app_${process.pid}`;
    const sql = await fresh();
    await migrate(sql);
    await pool.query(`CREATE ROLE ${user} LOGIN PASSWORD 'app'; GRANT USAGE ON SCHEMA leasehold TO ${user};
      GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA leasehold TO ${user}`);
    const url = new URL(database.url);
    const owner = url.username;
    url.username = user;
    url.password = "app";
    const own = new pg.Pool({ connectionString: url.href, max: 1 });
    try {
      const one = later("one", last);
      const newer = [...MIGRATIONS, one, later("two", last, [one])];
      await expect(migrate(poolSql(own, systemEnv.clock), undefined, newer)).rejects.toMatchObject({
        code: "STORE_MISCONFIGURED",
        message: expect.stringMatching(
          `lacks the steps "one", "two" of this release, which the role ${user} may not take: ` +
            `run \`leasehold migrate\` as ${owner}, the owner of the schema`,
        ) as string,
      });
    } finally {
      await own.end();
      await pool.query(`DROP OWNED BY ${user}; DROP ROLE ${user}`);
    }
  });

  it("hold up no leases while a transaction is in their way", async () => {
    const source = { url: database.url };
    await migrate(await fresh());
    const opened = await openPostgres(source, systemEnv);
    const inTheWay = await pool.connect();
    await inTheWay.query("BEGIN; LOCK TABLE leasehold.lease IN ROW SHARE MODE");
    const statements = ["ALTER TABLE leasehold.lease ADD COLUMN later int"];
    const step = { ...later("later", last), statements };
    // A service may end long statements.
    const short = new pg.Pool({ connectionString: database.url, statement_timeout: 500 });
    const sql = poolSql(short, systemEnv.clock);
    let tries = 0;
    const watched: Sql = {
      ...sql,
      transaction: (work, options) => {
        tries += 1;
        return sql.transaction(work, options);
      },
    };
    const migrating = migrate(watched, undefined, [...MIGRATIONS, step]);
    try {
      // The step, a pause, and the step again.
      await expect.poll(() => tries, { timeout: 60_000 }).toBeGreaterThan(2);
      const lease = {
        namespace: "n",
        resource: "r",
        leaseId: "0".repeat(48),
        holder: "h",
        ttlMs: 60_000,
      };
      expect(await opened.leases.acquire([lease])).toMatchObject([{ status: "acquired" }]);
      expect(await opened.leases.renew([lease])).toMatchObject([{ status: "renewed" }]);
      expect(await versions()).toEqual(all);
    } finally {
      await inTheWay.query("COMMIT");
      inTheWay.release();
    }
    expect(await migrating).toEqual(["later"]);
    await opened.close();
    await short.end();
  });
});

it("create the same fence table that the fence creates by itself", () => {
  const words = (text: string) => text.replaceAll(/\s+/g, " ");
  for (const statement of FENCE_TABLES) expect(words(FENCE_TABLE)).toContain(words(statement));
});

it("are numbered without a gap, and suit no code that an earlier step no longer suits", () => {
  for (const [index, { version, compatibleFrom }] of MIGRATIONS.entries()) {
    expect(version).toBe(BASELINE + index);
    expect(compatibleFrom).toBeLessThanOrEqual(version);
    expect(compatibleFrom).toBeGreaterThanOrEqual(MIGRATIONS[index - 1]?.compatibleFrom ?? 0);
  }
});
