/**
 * A server of PostgreSQL that becomes read-only while its connections stay open, and whose address then leads to the new
 * primary.
 */
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { newLeaseId, systemEnv, systemRandom } from "../../packages/leasehold/src/env/index.js";
import { connect, defineTask } from "../../packages/leasehold/src/index.js";
import {
  openPostgres,
  type PostgresDatabase,
  type PostgresSource,
} from "../../packages/leasehold/src/stores/postgres/index.js";
import { until, Watching } from "../../packages/leasehold/src/testing/waiting.js";
import {
  describePostgres,
  freshDatabase,
  type PostgresServer,
  startPostgres,
} from "../support/engines/postgres.js";
import { openTcpProxy, type TcpProxy } from "../support/faults/tcp-proxy.js";

const TASK = defineTask<{ n: number }>("kind");
const TTL = { ttlMs: 60_000 };
const request = (resource: string) => {
  const leaseId = newLeaseId(systemRandom);
  return { namespace: "n", resource, leaseId, holder: "h", ...TTL };
};

describePostgres("PostgreSQL whose primary changes while its connections stay open", () => {
  let old: PostgresServer;
  let admin: pg.Client;
  let next: pg.Client;
  let nextUrl: string;
  let dropNext: () => Promise<void>;
  let proxy: TcpProxy;
  const closing: (() => Promise<void>)[] = [];
  beforeAll(async () => {
    old = await startPostgres();
    admin = new pg.Client({ connectionString: old.url });
    await admin.connect();
  });
  beforeEach(async () => {
    // A server of its own needs a database of the same name.
    const database = await freshDatabase();
    [nextUrl, dropNext] = [database.url, database.drop];
    const name = new URL(nextUrl).pathname.slice(1);
    await admin.query(`CREATE DATABASE ${name}`);
    await connect(nextUrl).then((client) => client.close());
    next = new pg.Client({ connectionString: nextUrl });
    await next.connect();
    proxy = await openTcpProxy({ port: old.port });
  });
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close();
    await admin.query("ALTER SYSTEM RESET default_transaction_read_only");
    await admin.query("SELECT pg_reload_conf()");
    await proxy.close();
    await next.end();
    await dropNext();
  });
  afterAll(async () => {
    await admin?.end();
    await old?.remove();
  });

  const url = () => {
    const at = new URL(old.url);
    [at.port, at.pathname] = [`${proxy.port}`, new URL(nextUrl).pathname];
    return at.href;
  };
  const open = async (source: PostgresSource): Promise<PostgresDatabase> => {
    const database = await openPostgres(source, systemEnv);
    closing.push(() => database.close());
    return database;
  };
  const openPool = () => {
    const pool = new pg.Pool({ connectionString: url() });
    pool.on("error", () => {});
    closing.push(() => pool.end());
    return pool;
  };
  const switchOver = async () => {
    await admin.query("ALTER SYSTEM SET default_transaction_read_only = on");
    await admin.query("SELECT pg_reload_conf()");
    const isReadOnly = async () => {
      const { rows } = await admin.query("SHOW default_transaction_read_only");
      return rows[0]?.default_transaction_read_only === "on";
    };
    await until(expect, "the old primary is read-only", isReadOnly);
    proxy.redirect(Number(new URL(nextUrl).port));
  };

  it.each(["its own pools", "a pool of the user"])(
    "is followed by each call after one, with %s",
    async (kind) => {
      const { leases } = await open(
        kind === "its own pools" ? { url: url() } : { pool: openPool() },
      );
      // Each of them opens a connection of its own.
      const reads = Array.from({ length: 8 }, () => leases.get([request("r")]));
      await Promise.all(reads);
      const [kept] = [request("kept")];
      await leases.acquire([kept]);
      await leases.renew([kept]);
      await switchOver();
      const refused = await leases.acquire([request("r")]);
      expect(refused).toMatchObject([{ status: "failed", applied: "no", retryable: true }]);
      expect(await leases.acquire([request("r")])).toMatchObject([{ status: "acquired" }]);
      // It knows no such lease.
      expect(await leases.renew([kept])).toEqual([{ status: "lost", reason: "gone" }]);
      expect(await leases.get([kept])).toEqual([null]);
    },
  );

  it("is followed within a single call of a client, of tasks too", async () => {
    const client = await connect(url());
    closing.push(() => client.close());
    await client.tasks.enqueue(TASK, { n: 1 });
    await switchOver();
    const lease = await client.acquire("r", TTL);
    await client.tasks.enqueue(TASK, { n: 2 });
    const { rows } = await next.query("SELECT holder FROM leasehold.lease");
    expect(rows).toHaveLength(1);
    await lease.release();
  });

  it("is followed by a transaction", async () => {
    const { connections } = await open({ url: url() });
    const { general } = connections.backend;
    await switchOver();
    const insert = () =>
      general.transaction((session) => session.query("CREATE TABLE IF NOT EXISTS made ()"));
    await expect(insert()).rejects.toMatchObject({ retryable: true, outcome: "none" });
    await insert();
    expect((await next.query("SELECT to_regclass('made') AS made")).rows).toEqual([
      { made: "made" },
    ]);
  });

  it.each(["its own session", "a client of the user's pool"])(
    "is followed by notifications in %s",
    async (kind) => {
      const { leases } = await open(
        kind === "its own session" ? { url: url() } : { pool: openPool() },
      );
      const watching = new Watching((options) => leases.watch("n", options));
      closing.push(() => watching.stop());
      const resyncs = () => watching.events.filter(({ type }) => type === "resync").length;
      await until(expect, "the watch is active", () => resyncs() === 1);
      await switchOver();
      const isAcquired = async () =>
        (await leases.acquire([request("r")]))[0]?.status === "acquired";
      await until(expect, "calls have found the next primary", isAcquired);
      await until(expect, "the watch is active again", () => resyncs() === 2);
      await next.query("SELECT pg_notify('leasehold', $1)", [
        JSON.stringify(["lease", "n", "freed"]),
      ]);
      await until(expect, "the notification has arrived", () =>
        watching.events.some((event) => event.type === "changed" && event.resource === "freed"),
      );
    },
  );
});
