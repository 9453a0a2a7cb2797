import { readFileSync } from "node:fs";
import type { PGlite } from "@electric-sql/pglite";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { openPglite } from "../../../../tests/support/engines/pglite.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../../../../tests/support/engines/postgres.js";
import { recordedTelemetry } from "../../../../tests/support/worlds/recorded-telemetry.js";
import { StaleTokenError } from "../lease/index.js";
import {
  FENCE_TABLE,
  fence,
  type Refusal,
  type SqlTransaction,
  sqlGuard,
  staleTokenError,
} from "./index.js";

const PROTECTED = `
CREATE TABLE tenant_billing_close (tenant_id text PRIMARY KEY, status text NOT NULL, by_token bigint);
INSERT INTO tenant_billing_close VALUES ('tenant_123', 'OPEN', NULL);`;
/** The trigger of docs/coordination.md, on a table of its own. */
const [, TRIGGER = ""] = /^```sql\n([^]*?)^```$/m.exec(
  readFileSync(new URL("../../../../docs/coordination.md", import.meta.url), "utf8"),
) ?? [""];
const GUARDED = `
CREATE TABLE guarded (status text NOT NULL);
INSERT INTO guarded VALUES ('OPEN');
${TRIGGER}`;
const EMPTY = `
DROP SCHEMA IF EXISTS leasehold CASCADE;
DROP TABLE IF EXISTS tenant_billing_close;`;
const RESOURCE = "tenant_123:billing-close:2026-04";

/** What a holder does: the guard, then the write, in one transaction. */
async function closeBilling(client: SqlTransaction, token: number, status: string): Promise<void> {
  await client.query("BEGIN");
  try {
    await fence(client, RESOURCE, token);
    await client.query("UPDATE tenant_billing_close SET status = $1, by_token = $2", [
      status,
      token,
    ]);
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  }
}

async function rows(client: SqlTransaction): Promise<unknown[]> {
  const text = "SELECT status, by_token::int AS token FROM tenant_billing_close";
  return (await client.query(text)).rows;
}

describe("fence on PGlite", () => {
  let db: PGlite;
  beforeAll(async () => {
    db = await openPglite();
  });
  beforeEach(() => db.exec(EMPTY));
  afterAll(() => db.close());

  it("accepts a newer and an equal token, and refuses an older one with all that it wrote", async () => {
    await db.exec(FENCE_TABLE);
    await db.exec(FENCE_TABLE);
    await db.exec(PROTECTED);
    await closeBilling(db, 10, "CLOSING");
    await closeBilling(db, 10, "STILL CLOSING");
    await closeBilling(db, 11, "CLOSED");
    const stale = closeBilling(db, 10, "STALE");
    await expect(stale).rejects.toBeInstanceOf(StaleTokenError);
    await expect(stale).rejects.toMatchObject({
      code: "STALE_TOKEN",
      resource: RESOURCE,
      token: 10,
      lastToken: 11,
      retryable: false,
    });
    expect(await rows(db)).toEqual([{ status: "CLOSED", token: 11 }]);
    // Other resources and tenants have counters of their own.
    await db.transaction(async (tx) => {
      await fence(tx, "other", 1);
      await fence(tx, RESOURCE, 1, { namespace: "other" });
    });
  });

  it("keeps tokens of microseconds exactly", async () => {
    await db.exec(FENCE_TABLE);
    const pass = (token: number) => db.transaction((tx) => fence(tx, RESOURCE, token));
    await pass(1_795_231_079_067_001);
    await expect(pass(1_795_231_079_067_000)).rejects.toMatchObject({
      lastToken: 1_795_231_079_067_001,
    });
  });

  it("holds the row while a guard's work runs, and counts what it refuses", async () => {
    await db.exec(FENCE_TABLE);
    await db.exec(PROTECTED);
    const refused: Refusal[] = [];
    const guard = sqlGuard<SqlTransaction>((work) => db.transaction(work), {
      namespace: "t1",
      onRefused: (refusal) => refused.push(refusal),
    });
    const write = (token: number) =>
      guard.guard(RESOURCE, token, (tx) =>
        tx.query("UPDATE tenant_billing_close SET by_token = $1", [token]),
      );
    await write(11);
    await expect(write(10)).rejects.toMatchObject({ code: "STALE_TOKEN", lastToken: 11 });
    expect(await rows(db)).toEqual([{ status: "OPEN", token: 11 }]);
    expect(guard.refusals).toBe(1);
    expect(refused).toEqual([{ namespace: "t1", resource: RESOURCE, token: 10, lastToken: 11 }]);
    await expect(guard.guard(RESOURCE, 12, undefined as never)).rejects.toMatchObject({
      path: "work",
    });
    await write(11);
    expect(() => sqlGuard(db as never)).toThrow(/transaction must be a function/);
  });

  it("refuses a transaction that has not run the work, or keeps its result", async () => {
    await db.exec(FENCE_TABLE);
    type Transaction = (work: (tx: SqlTransaction) => Promise<unknown>) => unknown;
    const open: Promise<unknown>[] = [];
    const wrappers: readonly (readonly [Transaction, string])[] = [
      [(work) => void open.push(db.transaction(work)), "returned before the work had ended"],
      [async () => {}, "returned before the work had ended"],
      [async (work) => void (await db.transaction(work)), "returned something else"],
      [async (work) => [await db.transaction(work)], "returned something else"],
    ];
    for (const [transaction, problem] of wrappers) {
      const guarded = sqlGuard(transaction as never).guard(RESOURCE, 1, () => "written");
      await expect(guarded).rejects.toMatchObject({
        code: "INVALID_OPTION",
        path: "transaction",
        message: expect.stringMatching(
          `must run the work and return its result, but it ${problem}`,
        ) as string,
      });
      await Promise.all(open);
    }
  });

  it("rejects with what the work threw, also if the transaction swallowed it", async () => {
    await db.exec(FENCE_TABLE);
    const guard = sqlGuard<SqlTransaction>((work) =>
      db.transaction(work).catch(() => undefined as never),
    );
    const failed = new Error("the work failed");
    await expect(guard.guard(RESOURCE, 2, () => Promise.reject(failed))).rejects.toBe(failed);
    await guard.guard(RESOURCE, 2, () => {});
    await expect(guard.guard(RESOURCE, 1, () => "written")).rejects.toMatchObject({
      code: "STALE_TOKEN",
    });
  });

  it("takes the last run of a transaction that runs the work again", async () => {
    await db.exec(FENCE_TABLE);
    const guard = sqlGuard<SqlTransaction>((work) =>
      db.transaction(work).catch(() => db.transaction(work)),
    );
    let runs = 0;
    const work = () => {
      runs += 1;
      if (runs === 1) throw new Error("serialization failure");
      return runs;
    };
    expect(await guard.guard(RESOURCE, 3, work)).toBe(2);
  });

  it("guards in its own namespace and schema, and in no other one", async () => {
    await db.exec(FENCE_TABLE);
    const other = FENCE_TABLE.replaceAll("leasehold.", "elsewhere.");
    await db.exec(
      other.replace("SCHEMA IF NOT EXISTS leasehold", "SCHEMA IF NOT EXISTS elsewhere"),
    );
    const guarded = (options: Parameters<typeof sqlGuard>[1]) =>
      sqlGuard<SqlTransaction>((work) => db.transaction(work), options);
    await guarded({ namespace: "a" }).guard(RESOURCE, 11, () => {});
    await guarded({ namespace: "b" }).guard(RESOURCE, 5, () => {});
    await guarded({ namespace: "a", schema: "elsewhere" }).guard(RESOURCE, 5, () => {});
    await db.transaction((tx) => fence(tx, RESOURCE, 1));
    const kept = (schema: string) =>
      db.query(`SELECT namespace, token::int FROM ${schema}.fence ORDER BY namespace`);
    expect((await kept("leasehold")).rows).toEqual([
      { namespace: "a", token: 11 },
      { namespace: "b", token: 5 },
      { namespace: "default", token: 1 },
    ]);
    expect((await kept("elsewhere")).rows).toEqual([{ namespace: "a", token: 5 }]);
    await db.exec("DROP SCHEMA elsewhere CASCADE");
  });

  it("counts each refusal once in the telemetry, of a guard and of the function alone", async () => {
    await db.exec(FENCE_TABLE);
    const { telemetry, valuesOf } = recordedTelemetry();
    const guard = sqlGuard<SqlTransaction>((work) => db.transaction(work), { telemetry });
    await guard.guard(RESOURCE, 11, () => {});
    await expect(guard.guard(RESOURCE, 10, () => {})).rejects.toBeInstanceOf(StaleTokenError);
    expect(valuesOf("leasehold.fence.refusals")).toEqual([[{}, 1]]);
    const pass = db.transaction((tx) => fence(tx, RESOURCE, 9, { telemetry }));
    await expect(pass).rejects.toBeInstanceOf(StaleTokenError);
    expect(valuesOf("leasehold.fence.refusals")).toHaveLength(2);
    expect(guard.refusals).toBe(1);
  });

  it("is a function in the database that any SQL client can call", async () => {
    await db.exec(FENCE_TABLE);
    await db.exec(PROTECTED);
    await db.query("SELECT leasehold.check_fence('r', 11)");
    await db.query("SELECT leasehold.check_fence(resource => 'r', token => 11)");
    await db.query("SELECT leasehold.check_fence('r', 1, 'other')");
    const write = db.transaction(async (tx) => {
      await tx.query("UPDATE tenant_billing_close SET status = 'STALE'");
      await tx.query("SELECT leasehold.check_fence('r', 10)");
    });
    const refused: unknown = await write.catch((error: unknown) => error);
    expect(refused).toMatchObject({
      code: "LH001",
      message: 'token 10 for "r" is older than 11, which has passed',
      detail: '{"resource" : "r", "token" : 10, "lastToken" : 11}',
    });
    for (const error of [refused, new Error("of a query builder", { cause: refused })]) {
      expect(staleTokenError(error)).toMatchObject({ resource: "r", token: 10, lastToken: 11 });
    }
    expect(staleTokenError(new Error("other"))).toBeUndefined();
    expect(await rows(db)).toEqual([{ status: "OPEN", token: null }]);
    // A missing token is refused.
    await expect(db.query("SELECT leasehold.check_fence('r', NULL)")).rejects.toThrow(/null/);
  });

  it("does not let a transaction commit that it has refused", async () => {
    await db.exec(FENCE_TABLE);
    await db.exec(PROTECTED);
    await db.transaction((tx) => fence(tx, "r", 11));
    await db.query("BEGIN");
    await expect(fence(db, "r", 10)).rejects.toBeInstanceOf(StaleTokenError);
    await expect(db.query("UPDATE tenant_billing_close SET status = 'STALE'")).rejects.toThrow();
    await db.query("COMMIT");
    expect(await rows(db)).toEqual([{ status: "OPEN", token: null }]);
  });

  it("protects nothing outside of a transaction, and so refuses", async () => {
    await db.exec(FENCE_TABLE);
    await expect(fence(db, RESOURCE, 1)).rejects.toMatchObject({
      code: "INVALID_OPTION",
      path: "client",
      message: expect.stringMatching(/in an open transaction.*pool\.connect\(\).*BEGIN/),
    });
    expect((await db.query("SELECT FROM leasehold.fence")).rows).toHaveLength(0);
  });

  it("says what is missing or wrong", async () => {
    const pass = () => db.transaction((tx) => fence(tx, RESOURCE, 1));
    await expect(pass()).rejects.toMatchObject({
      code: "STORE_MISCONFIGURED",
      message: expect.stringContaining("FENCE_TABLE"),
    });
    // As an older release has left it.
    await db.exec(FENCE_TABLE);
    await db.exec("DROP FUNCTION leasehold.check_fence");
    await expect(pass()).rejects.toMatchObject({ code: "STORE_MISCONFIGURED" });
    await expect(fence(db, "", 1)).rejects.toMatchObject({ path: "resource" });
    await expect(fence(db, RESOURCE, 1.5)).rejects.toMatchObject({ path: "token" });
    const misspelled = { namespce: "other" } as never;
    await expect(fence(db, RESOURCE, 1, misspelled)).rejects.toMatchObject({ path: "namespce" });
    expect(() => sqlGuard(db.transaction, misspelled)).toThrow(/namespce is not an option/);
    await expect(fence({} as SqlTransaction, RESOURCE, 1)).rejects.toMatchObject({
      path: "client",
    });
  });
});

describePostgres("fence on PostgreSQL", () => {
  let database: FreshDatabase;
  const clients: pg.Client[] = [];
  const connected = async () => {
    const client = new pg.Client(database.url);
    await client.connect();
    clients.push(client);
    return client;
  };
  beforeAll(async () => {
    database = await freshDatabase();
    const client = await connected();
    await client.query(FENCE_TABLE);
    await client.query(PROTECTED);
  });
  afterAll(async () => {
    await Promise.all(clients.map((client) => client.end()));
    await database.drop();
  });

  it("holds the row until commit: an older holder that comes meanwhile waits, and is refused", async () => {
    const [newer, older, watcher] = [await connected(), await connected(), await connected()];
    // With a token that both see: what is read before the wait would admit the older one.
    await newer.query("BEGIN");
    await fence(newer, "r", 9);
    await newer.query("COMMIT");
    await newer.query("BEGIN");
    await fence(newer, "r", 11);
    await older.query("BEGIN");
    const refused = expect(fence(older, "r", 10)).rejects.toBeInstanceOf(StaleTokenError);
    const waiting = `SELECT count(*)::int AS n FROM pg_stat_activity
      WHERE wait_event_type = 'Lock' AND datname = current_database()`;
    await expect.poll(async () => (await watcher.query(waiting)).rows).toEqual([{ n: 1 }]);
    await newer.query("COMMIT");
    await refused;
    await older.query("ROLLBACK");
  });

  it("does so in plain SQL, and in a trigger of the protected table", async () => {
    const [newer, older] = [await connected(), await connected()];
    await newer.query(GUARDED);
    const write = async (client: pg.Client, token: number, status: string) => {
      await client.query("SELECT set_config('app.token', $1, true)", [`${token}`]);
      await client.query("UPDATE guarded SET status = $1", [status]);
    };
    await newer.query("BEGIN");
    await older.query("BEGIN");
    await write(newer, 11, "CLOSED");
    const refused = write(older, 10, "STALE").catch((error: unknown) => error);
    await newer.query("COMMIT");
    expect(staleTokenError(await refused)).toMatchObject({ token: 10, lastToken: 11 });
    await older.query("ROLLBACK");
    // Not a word of a token.
    await expect(older.query("DELETE FROM guarded")).rejects.toThrow(/null value|invalid input/);
    expect((await newer.query("SELECT status FROM guarded")).rows).toEqual([{ status: "CLOSED" }]);
  });

  it("forgets a holder whose transaction was rolled back", async () => {
    const client = await connected();
    await client.query("BEGIN");
    await fence(client, "rolled back", 20);
    await client.query("ROLLBACK");
    await client.query("BEGIN");
    await fence(client, "rolled back", 19);
    await client.query("COMMIT");
  });

  it("refuses a pool, which commits each statement by itself", async () => {
    const pool = new pg.Pool({ connectionString: database.url });
    await pool.query("BEGIN");
    // @ts-expect-error A pool is no transaction.
    await expect(fence(pool, "pooled", 1)).rejects.toMatchObject({ path: "client" });
    await pool.end();
  });

  it("lets tokens only grow, whatever the order of many concurrent holders", async () => {
    const accepted: number[] = [];
    await Promise.all(
      Array.from({ length: 8 }, async (_, worker) => {
        const client = await connected();
        for (let round = 0; round < 25; round += 1) {
          const token = 1 + ((round * 8 + worker * 13) % 200);
          await client.query("BEGIN");
          try {
            await fence(client, "crowd", token);
            // This transaction holds the row, so the list has the order in which tokens were admitted.
            accepted.push(token);
            await client.query("COMMIT");
          } catch (error) {
            expect(error).toBeInstanceOf(StaleTokenError);
            await client.query("ROLLBACK");
          }
        }
      }),
    );
    expect(accepted.length).toBeGreaterThan(0);
    expect(accepted).toEqual([...accepted].sort((a, b) => a - b));
  });
});
