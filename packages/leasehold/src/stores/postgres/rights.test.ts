/** The GRANT statements in the error of a refused user are those that it needs, and no more. */
import pg from "pg";
import { beforeAll, beforeEach, expect, it } from "vitest";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../../../../../tests/support/engines/postgres.js";
import { failuresOfAllCalls } from "../../../../../tests/support/engines/postgres-all-calls.js";
import { systemEnv } from "../../env/index.js";
import { migratePostgres, openPostgres } from "./index.js";

describePostgres("a user without rights", () => {
  let database: FreshDatabase;
  let admin: pg.Client;
  const role = `app_${process.pid}`;
  beforeAll(async () => {
    database = await freshDatabase();
    admin = new pg.Client({ connectionString: database.url });
    await admin.connect();
    await admin.query(`CREATE ROLE ${role} LOGIN PASSWORD 'app'`);
    return async () => {
      await admin.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
      await admin.end();
      await database.drop();
    };
  });
  beforeEach(() => admin.query("DROP SCHEMA IF EXISTS leasehold CASCADE"));

  const asApp = () => {
    const url = new URL(database.url);
    url.username = role;
    url.password = "app";
    return { url: url.href };
  };
  const open = () => openPostgres(asApp(), systemEnv);
  /** The message, and the statements in it. */
  async function refusal(opening: Promise<unknown>) {
    const error = await opening.then(
      () => expect.unreachable("it was not refused"),
      (reason: Error & { code: string }) => reason,
    );
    expect(error.code).toBe("STORE_MISCONFIGURED");
    const grants = error.message.split("\n").filter((line) => line.startsWith("  GRANT "));
    return { message: error.message, grants };
  }
  async function run(grants: readonly string[]): Promise<void> {
    for (const grant of grants) await admin.query(grant);
  }

  it("learns how it may create the schema", async () => {
    const { message, grants } = await refusal(open());
    const name = new URL(database.url).pathname.slice(1);
    expect(message).toMatch(
      /^PostgreSQL reported: permission denied for database .*; as the owner/,
    );
    expect(grants).toEqual([`  GRANT CREATE ON DATABASE ${name} TO ${role};`]);
    await admin.query("CREATE SCHEMA leasehold");
    const second = await refusal(open());
    expect(second.grants).toEqual([
      `  GRANT USAGE ON SCHEMA leasehold TO ${role};`,
      `  GRANT CREATE ON SCHEMA leasehold TO ${role};`,
    ]);
    await run(second.grants);
    await (await open()).close();
    expect(await migratePostgres(asApp(), systemEnv)).toEqual([]);
  });

  it("learns what it needs of a schema that is there, and can then do everything", async () => {
    await migratePostgres({ url: database.url }, systemEnv);
    const { message, grants } = await refusal(open());
    expect(message).toContain("permission denied for schema leasehold");
    expect(grants[0]).toBe(`  GRANT USAGE ON SCHEMA leasehold TO ${role};`);
    expect(grants).toContain(`  GRANT SELECT ON leasehold.migration TO ${role};`);
    expect(grants).toContain(`  GRANT SELECT, INSERT ON leasehold.audit TO ${role};`);
    await run(grants);

    // A new table needs its entry in rights.ts.
    const { rows: unknown } = await admin.query(
      `SELECT relname FROM pg_class WHERE relnamespace = 'leasehold'::regnamespace AND relkind = 'r'
         AND NOT has_table_privilege($1, oid, 'SELECT')`,
      [role],
    );
    expect(unknown).toEqual([]);

    expect(await failuresOfAllCalls(asApp())).toEqual([]);
  });

  it("learns only what is missing, when a statement is refused", async () => {
    await migratePostgres({ url: database.url }, systemEnv);
    await run((await refusal(open())).grants);
    await admin.query(`REVOKE INSERT, DELETE ON leasehold.lease FROM ${role}`);
    const { leases, close } = await open();
    const [outcome] = await leases.acquire([
      { namespace: "n", resource: "r", leaseId: "0".repeat(48), holder: "h", ttlMs: 1_000 },
    ]);
    expect(outcome).toMatchObject({ status: "failed", applied: "no", retryable: false });
    const { grants } = await refusal(
      Promise.reject(outcome?.status === "failed" ? outcome.error : undefined),
    );
    expect(grants).toEqual([`  GRANT INSERT, DELETE ON leasehold.lease TO ${role};`]);
    await close();
  });
});
