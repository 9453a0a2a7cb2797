/** PostgreSQL as services run it: with time limits, replicas, publications, and users who may not do everything. */
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import { connect, defineTask } from "../../packages/leasehold/src/index.js";
import { migratePostgres } from "../../packages/leasehold/src/stores/postgres/index.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
  type PostgresServer,
  startPostgres,
} from "../support/engines/postgres.js";
import { failuresOfAllCalls } from "../support/engines/postgres-all-calls.js";
import { caughtUp, query, startStandby } from "../support/engines/postgres-copies.js";

describePostgres("a database whose tables are all published for logical replication", () => {
  let server: PostgresServer;
  let database: FreshDatabase;
  beforeAll(async () => {
    server = await startPostgres({ settings: { wal_level: "logical" } });
    database = await freshDatabase(server);
    await query(database, "CREATE PUBLICATION everything FOR ALL TABLES");
  });
  afterAll(() => server?.remove());

  it("takes all statements", async () => {
    expect(await failuresOfAllCalls(database)).toEqual([]);
    // PostgreSQL refuses to update or delete rows of a published table without an identity.
    const without = await query(
      database,
      `SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'leasehold'::regnamespace AND c.relkind = 'r'
         AND c.relreplident = 'd'
         AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)`,
    );
    expect(without).toEqual([]);
  });

  it("runs tasks with a key", async () => {
    const client = await connect(database.url);
    const ran: unknown[] = [];
    const pay = defineTask("pay", { concurrencyKey: ({ of }: { of: string }) => of });
    for (let n = 0; n < 3; n += 1) await client.tasks.enqueue(pay, { of: "ada" });
    const worker = client.tasks.work([pay.handle((data) => ran.push(data))], { concurrency: 2 });
    await expect.poll(() => ran.length, { timeout: 20_000 }).toBe(3);
    await worker.close();
    await client.close();
  });
});

describePostgres("a user of a service", () => {
  let database: FreshDatabase;
  let admin: pg.Client;
  const role = `tenant_${process.pid}`;
  const url = () => {
    const own = new URL(database.url);
    [own.username, own.password] = [role, "tenant"];
    return own.href;
  };
  beforeAll(async () => {
    database = await freshDatabase();
    admin = new pg.Client({ connectionString: database.url });
    await admin.connect();
    await admin.query(`CREATE ROLE ${role} LOGIN PASSWORD 'tenant' NOSUPERUSER NOCREATEDB`);
    const name = new URL(database.url).pathname.slice(1);
    await admin.query(`GRANT CREATE ON DATABASE ${name} TO ${role}`);
    return async () => {
      await admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
      await admin.end();
      await database.drop();
    };
  });
  beforeEach(() => admin.query(`ALTER ROLE ${role} RESET ALL`));
  const setting = (name: string, value: string) =>
    admin.query(`ALTER ROLE ${role} SET ${name} = ${value}`);

  it("needs no superuser, and makes its own schema", async () => {
    expect(await failuresOfAllCalls({ url: url() })).toEqual([]);
  });

  it.each([
    ["nothing", "''"],
    ["a schema with tables of the same names", "decoy, pg_catalog"],
  ])("has a search path with %s", async (_, path) => {
    await admin.query(
      `CREATE SCHEMA IF NOT EXISTS decoy; GRANT USAGE ON SCHEMA decoy TO PUBLIC;
       CREATE TABLE IF NOT EXISTS decoy.lease (n int);
       CREATE TABLE IF NOT EXISTS decoy.task (n int);
       CREATE TABLE IF NOT EXISTS decoy.migration (n int);`,
    );
    await setting("search_path", path);
    expect(await failuresOfAllCalls({ url: url() })).toEqual([]);
  });

  it("has short limits of statements, of waits for locks and of idle transactions", async () => {
    await setting("statement_timeout", "'5s'");
    await setting("lock_timeout", "'1s'");
    await setting("idle_in_transaction_session_timeout", "'1s'");
    expect(await failuresOfAllCalls({ url: url() })).toEqual([]);
  });

  it("migrates for longer than its statements may take", async () => {
    await setting("statement_timeout", "'200ms'");
    await setting("lock_timeout", "'200ms'");
    await admin.query("BEGIN");
    await admin.query("SELECT pg_advisory_xact_lock(hashtextextended('leasehold migrations', 0))");
    const migrating = migratePostgres({ url: `${url()}?schema=limited` }, systemEnv);
    const waited = `SELECT FROM pg_stat_activity
      WHERE usename = '${role}' AND wait_event = 'advisory' AND clock_timestamp() - query_start > interval '400 ms'`;
    const longWait = async () => {
      while ((await query(database, waited)).length === 0) await delay(20);
    };
    await Promise.race([longWait(), migrating]);
    await admin.query("COMMIT");
    expect((await migrating).length).toBeGreaterThan(0);
  });

  it("that may only read is refused, with the remedy", async () => {
    await setting("default_transaction_read_only", "on");
    await expect(connect(url())).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringContaining("SET default_transaction_read_only = off") as string,
    });
  });
});

describePostgres("a primary and its replica", () => {
  let primary: PostgresServer;
  let replica: PostgresServer;
  beforeAll(async () => {
    primary = await startPostgres({ settings: { wal_keep_size: "256MB" } });
    await migratePostgres({ url: primary.url }, systemEnv);
    replica = await startStandby(primary, {});
  });
  afterAll(async () => {
    await replica?.remove();
    await primary?.remove();
  });
  const both = (first: PostgresServer, second: PostgresServer) =>
    primary.url.replace(
      `127.0.0.1:${primary.port}`,
      `127.0.0.1:${first.port},127.0.0.1:${second.port}`,
    );

  it("refuses to open on the replica, naming the remedy", async () => {
    await caughtUp(primary, replica);
    const opening = [
      () => connect(replica.url),
      () => migratePostgres({ url: replica.url }, systemEnv),
    ];
    for (const open of opening) {
      await expect(open()).rejects.toMatchObject({
        code: "STORE_UNAVAILABLE",
        outcome: "none",
        message: expect.stringMatching(/read-only replica: connect to the primary/) as string,
      });
    }
  });

  it("refuses to prefer the replica", async () => {
    const url = `${both(replica, primary)}?target_session_attrs=standby`;
    await expect(connect(url)).rejects.toMatchObject({ path: "url: ?target_session_attrs" });
  });

  it("says of each server why it takes no writes", async () => {
    const gone = await startPostgres();
    await gone.remove();
    await expect(connect(both(replica, gone))).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringMatching(
        /none of the servers takes writes: .*read-only replica.*ECONNREFUSED/s,
      ) as string,
    });
  });

  it("is followed to the new primary when the replica is promoted, without losing a lease", async () => {
    const url = `${both(replica, primary)}?target_session_attrs=read-write`;
    const client = await connect(url);
    const kept = await client.acquire("kept", { ttlMs: 60_000 });
    await caughtUp(primary, replica);
    await primary.kill9();
    await query(replica, "SELECT pg_promote()");
    const next = await client.acquire("next", { ttlMs: 60_000, waitMs: 50_000 });
    expect(next.token).toBeGreaterThan(kept.token);
    await kept.renew();
    expect(kept.signal.aborted).toBe(false);
    expect(await query(replica, "SELECT resource FROM leasehold.lease ORDER BY resource")).toEqual([
      { resource: "kept" },
      { resource: "next" },
    ]);
    await client.close();
  });
});
