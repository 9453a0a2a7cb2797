/** What a store in PostgreSQL forgets beside its tasks, about once a minute, and what it must not. */
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  type Clock,
  newLeaseId,
  systemClock,
  systemEnv,
  systemRandom,
} from "../../packages/leasehold/src/env/index.js";
import {
  openPostgres,
  type PostgresDatabase,
} from "../../packages/leasehold/src/stores/postgres/index.js";
import { newTaskOf } from "../../packages/leasehold/src/testing/task-suite/new-task.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";

const namespace = "default";
const HOUR_MS = 3_600_000;
const LONG_AGO = "now() - interval '11 minutes'";

function keyed(id: string, key: string) {
  const rate = { limit: 9, perMs: HOUR_MS };
  const concurrency = { key, perKey: 1, order: "fifo", rate } as const;
  return newTaskOf({ namespace, id }, { concurrency });
}

describePostgres("PostgreSQL: what is forgotten", () => {
  let fresh: FreshDatabase;
  let database: PostgresDatabase;
  let client: pg.Client;
  /** Of the store's clock beside the system's. */
  let aheadMs = 0;

  beforeAll(async () => {
    fresh = await freshDatabase();
    const monotonic = () => systemClock.monotonic() + aheadMs;
    const clock: Clock = { ...systemClock, monotonic };
    database = await openPostgres({ url: fresh.url }, { ...systemEnv, clock });
    client = new pg.Client({ connectionString: fresh.url });
    await client.connect();
  });
  afterAll(async () => {
    await client?.end();
    await database?.close();
    await fresh?.drop();
  });

  const forget = () => {
    aheadMs += 61_000;
    return database.tasks.reap();
  };
  const left = async (column: string, table: string) => {
    const text = `SELECT ${column} AS left FROM leasehold.${table} ORDER BY 1`;
    const { rows } = await client.query<{ left: string }>(text);
    return rows.map((row) => row.left);
  };

  it("is each key without tasks, and each window of a rate, that is long unused", async () => {
    const { tasks } = database;
    const names = ["ended", "recent", "running", "waiting"];
    await tasks.enqueue(names.map((key) => keyed(key, key)));
    const request = { namespace, claimId: newLeaseId(systemRandom), holder: "h", limit: 10 };
    await tasks.claim({ ...request, queues: ["queue"], kinds: null, ttlMs: HOUR_MS });
    await tasks.cancel(["ended", "recent", "waiting"].map((id) => ({ namespace, id })));
    await tasks.retry([{ namespace, id: "waiting" }]);
    await client.query(
      `UPDATE leasehold.task_key SET claimed_at = ${LONG_AGO} WHERE key <> 'recent'`,
    );
    await client.query(`UPDATE leasehold.key_rate SET ends_at = ${LONG_AGO} WHERE key = 'ended'`);
    await forget();
    expect(await left("key", "task_key")).toEqual(["recent", "running", "waiting"]);
    expect(await left("key", "key_rate")).toEqual(["recent", "running", "waiting"]);
  });

  it("is each wait for a result whose time is over", async () => {
    const { tasks } = database;
    const keys = ["over", "awaited"].map((id) => ({ namespace, id }));
    await tasks.enqueue(keys.map((key) => newTaskOf(key)));
    await tasks.results(keys, { notifyMs: 600_000 });
    await client.query(
      `UPDATE leasehold.result_wait SET expires_at = ${LONG_AGO} WHERE task_id = 'over'`,
    );
    await forget();
    expect(await left("task_id", "result_wait")).toEqual(["awaited"]);
  });
});
