import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
  type PostgresServer,
  startPostgres,
} from "./postgres.js";

async function select(url: string, text: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => {});
  await client.connect();
  try {
    return (await client.query({ text, rowMode: "array" })).rows.flat();
  } finally {
    await client.end();
  }
}

describePostgres("the run's PostgreSQL server", () => {
  let database: FreshDatabase;
  beforeAll(async () => {
    database = await freshDatabase();
  });
  afterAll(() => database.drop());

  it("gives each test file an empty database on a durable server", async () => {
    const text = "SELECT current_setting('fsync'), count(*)::int FROM pg_stat_user_tables";
    expect(await select(database.url, text)).toEqual(["on", 0]);
  });
});

describePostgres("a server of a test's own", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(() => server.remove());

  it("keeps what was committed over kill -9 and comes back on the same port", async () => {
    await select(server.url, "CREATE TABLE kept AS SELECT 42 AS n");
    const { port } = server;
    await server.kill9();
    await expect(select(server.url, "SELECT 1")).rejects.toThrow(/ECONN(REFUSED|RESET)/);
    await server.start();
    expect(server.port).toBe(port);
    expect(await select(server.url, "SELECT n FROM kept")).toEqual([42]);
    await server.stop();
    await server.start();
    expect(await select(server.url, "SELECT n FROM kept")).toEqual([42]);
  });
});
