/** Two schemas of one database: what each store keeps, locks and notifies is its own. */
import pg from "pg";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { freshPglite } from "../../../../../tests/support/engines/pglite.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../../../../../tests/support/engines/postgres.js";
import { systemEnv } from "../../env/index.js";
import { fence } from "../../fence/index.js";
import { connect, defineTask, type Leasehold, migrate } from "../../index.js";
import { openPostgres, pglite, postgres } from "./index.js";
import { schemaNamed } from "./schema.js";

const PATIENT = { timeout: 10_000, interval: 20 };

it.each([
  "App",
  "1app",
  "app-1",
  'app"; DROP SCHEMA x; --',
  "",
  "x".repeat(54),
  "public",
  "pg_app",
  "information_schema",
])("the name %j is refused", (name) => {
  expect(() => schemaNamed(name)).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
});

it("each name is in the text of a statement, and leasehold is the text itself", () => {
  const text =
    "SELECT pg_notify('leasehold', x) FROM leasehold.lease l -- 'leasehold keys of ' 'leasehold.s'";
  expect(schemaNamed(undefined).sql(text)).toBe(text);
  expect(schemaNamed("leasehold").sql(text)).toBe(text);
  expect(schemaNamed("user").sql(text)).toBe(
    `SELECT pg_notify('leasehold_user', x) FROM "user".lease l -- 'leasehold_user keys of ' '"user".s'`,
  );
});

/** @param sources two sources of one database, in two schemas */
async function stayApart(one: Leasehold, other: Leasehold): Promise<void> {
  const lease = await one.acquire("r", { waitMs: 0, ttlMs: 60_000 });
  expect(await other.get("r")).toBeNull();
  const theirs = await other.acquire("r", { waitMs: 0, ttlMs: 60_000 });
  expect((await one.list()).items.map(({ holder }) => holder)).toEqual(["one"]);
  expect((await other.list()).items.map(({ holder }) => holder)).toEqual(["other"]);

  const task = defineTask<string>("kind");
  const { id } = await one.tasks.enqueue(task, "one");
  expect((await other.tasks.counts()).pending).toBe(0);
  expect(await other.tasks.get(id)).toBeNull();
  await other.tasks.enqueue(task, "other");
  const done: string[] = [];
  const worker = other.tasks.work([task.handle(async (data) => void done.push(data))]);
  await vi.waitFor(async () => expect((await other.tasks.counts()).done).toBe(1), PATIENT);
  await worker.close();
  expect(done).toEqual(["other"]);
  expect(await one.tasks.counts()).toMatchObject({ pending: 1, done: 0 });
  await lease.release();
  await theirs.release();
}

describePostgres("in PostgreSQL", () => {
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
  const urlIn = (schema: string) => `${database.url}?schema=${schema}`;

  it("two schemas do not see each other's leases and tasks", async () => {
    const one = await connect(urlIn("one"), { holder: "one" });
    const other = await connect(postgres({ pool, schema: "other" }), { holder: "other" });
    await stayApart(one, other);
    await Promise.all([one.close(), other.close()]);
    const { rows } = await pool.query("SELECT to_regnamespace('leasehold') AS default");
    expect(rows).toEqual([{ default: null }]);
  });

  it("the tables are named by a reserved word, too", async () => {
    const client = await connect(urlIn("user"));
    expect(await client.run("r", (lease) => lease.token)).toBeGreaterThan(0);
    await client.close();
    const { rows } = await pool.query(`SELECT resource FROM "user".lease`);
    expect(rows).toEqual([{ resource: "r" }]);
  });

  it("notifications are sent on a channel of the schema", async () => {
    const client = await connect(urlIn("one"));
    // Its own probe has arrived.
    expect(client.capabilities.watch).toBe("push");
    const listening = await pool.connect();
    const channels: string[] = [];
    listening.on("notification", ({ channel }) => void channels.push(channel));
    await listening.query("LISTEN leasehold; LISTEN leasehold_one; LISTEN leasehold_other");
    await client.tasks.enqueue(defineTask("kind"), null);
    await vi.waitFor(() => expect(channels).toContain("leasehold_one"), PATIENT);
    expect(new Set(channels)).toEqual(new Set(["leasehold_one"]));
    listening.release(true);
    await client.close();
  });

  it("a task is enqueued in the caller's transaction in the schema of its client", async () => {
    const client = await connect(postgres({ pool, schema: "transactional" }));
    const tx = await pool.connect();
    await tx.query("BEGIN");
    const { id } = await client.tasks.enqueue(defineTask("kind"), null, { client: tx });
    await tx.query("COMMIT");
    tx.release();
    expect(await client.tasks.get(id)).toMatchObject({ state: "pending" });
    await client.close();
  });

  it("keys, the audit, pauses and the fence are in the schema", async () => {
    const { control, close } = await openPostgres({ url: urlIn("controlled") }, systemEnv);
    const act = {
      namespace: "default",
      actor: "me",
      action: "resource.pause" as const,
      target: "r",
      reason: "because",
    };
    await control.perform(act, async ({ pauses }) => {
      const pause = { namespace: "default", kind: "resource", name: "r", actor: "me" } as const;
      return { value: await pauses.set({ ...pause, reason: "because" }), details: {} };
    });
    expect(await control.pauses.list("default")).toHaveLength(1);
    await close();
    const { rows } = await pool.query(
      "SELECT (SELECT count(*) FROM controlled.audit)::int AS entries, controlled.check_fence('r', 7)",
    );
    expect(rows).toMatchObject([{ entries: 1 }]);
    const fenced = await pool.query("SELECT resource, token FROM controlled.fence");
    expect(fenced.rows).toEqual([{ resource: "r", token: "7" }]);
    const inTransaction = async (work: (tx: pg.PoolClient) => Promise<void>) => {
      const tx = await pool.connect();
      await tx.query("BEGIN");
      await work(tx).finally(() => tx.query("ROLLBACK").then(() => tx.release()));
    };
    const stale = inTransaction((tx) => fence(tx, "r", 6, { schema: "controlled" }));
    await expect(stale).rejects.toMatchObject({ code: "STALE_TOKEN", lastToken: 7 });
    const missing = inTransaction((tx) => fence(tx, "r", 7));
    await expect(missing).rejects.toThrow("has no leasehold.check_fence");
  });

  it("8 instances migrate it once, and another schema does not wait for them", async () => {
    const steps = await Promise.all(Array.from({ length: 8 }, () => migrate(urlIn("many"))));
    expect(new Set(steps.flat()).size).toBe(steps.flat().length);
    const tx = await pool.connect();
    await tx.query("BEGIN");
    await tx.query("SELECT pg_advisory_xact_lock(hashtextextended('leasehold migrations', 0))");
    expect(await migrate(urlIn("beside"))).toContain("baseline");
    await tx.query("ROLLBACK");
    tx.release();
  });

  it("a name that is no name is refused before a connection is opened", async () => {
    await expect(connect(urlIn("Public"))).rejects.toMatchObject({ code: "INVALID_OPTION" });
    await expect(connect(urlIn("public"))).rejects.toThrow('a schema of its own, not "public"');
  });
});

describe("in PGlite", () => {
  it("two schemas do not see each other's leases and tasks", async () => {
    const { PGlite } = await import("@electric-sql/pglite");
    const { directory, remove } = await freshPglite();
    const db = await PGlite.create(directory);
    const one = await connect(pglite({ db, schema: "one" }), { holder: "one" });
    const other = await connect(pglite({ db }), { holder: "other" });
    await stayApart(one, other);
    await Promise.all([one.close(), other.close()]);
    await db.close();
    await remove();
  });
});
