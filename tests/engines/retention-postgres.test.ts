/** Ended tasks in PostgreSQL are collected by an index, and a month of them keeps the tables flat. */
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newLeaseId, systemEnv, taskIds } from "../../packages/leasehold/src/env/index.js";
import {
  openPostgres,
  type PostgresDatabase,
} from "../../packages/leasehold/src/stores/postgres/index.js";
import { COLLECT } from "../../packages/leasehold/src/stores/postgres/task-statements.js";
import { newTaskOf } from "../../packages/leasehold/src/testing/task-suite/new-task.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";

const DAY_MS = 24 * 3_600_000;
const PER_DAY = 300;
const newTaskId = taskIds(systemEnv.clock, systemEnv.random);

describePostgres("ended tasks in PostgreSQL", () => {
  let fresh: FreshDatabase;
  let database: PostgresDatabase;
  let client: pg.Client;
  beforeAll(async () => {
    fresh = await freshDatabase();
    database = await openPostgres({ url: fresh.url }, systemEnv);
    client = new pg.Client({ connectionString: fresh.url });
    await client.connect();
  });
  afterAll(async () => {
    await client.end();
    await database.close();
    await fresh.drop();
  });

  async function endTasks(count: number): Promise<void> {
    const retain = { doneMs: 3 * DAY_MS, deadMs: 5 * DAY_MS };
    const tasks = Array.from({ length: count }, () =>
      newTaskOf({ namespace: "n", id: newTaskId() }, { retain, data: "x".repeat(200) }),
    );
    await database.tasks.enqueue(tasks);
    const claimed = await database.tasks.claim({
      namespace: "n",
      claimId: newLeaseId(systemEnv.random),
      holder: "h",
      queues: ["queue"],
      kinds: null,
      limit: count,
      ttlMs: 60_000,
    });
    const held = claimed.status === "claimed" ? claimed.tasks : [];
    expect(held).toHaveLength(count);
    const grants = held.map(({ id, leaseId, token }) => ({ namespace: "n", id, leaseId, token }));
    await database.tasks.complete(
      grants.slice(count / 3).map((grant) => ({ ...grant, output: 1 })),
    );
    const failure = { error: "e", retryInMs: null, final: true };
    await database.tasks.fail(
      grants.slice(0, count / 3).map((grant) => ({ ...grant, ...failure })),
    );
  }

  it("keep the tables flat for a month", async () => {
    const sizes: { tasks: number; attempts: number; pages: number }[] = [];
    for (let day = 0; day < 30; day += 1) {
      await endTasks(PER_DAY);
      // A day passes.
      await client.query("UPDATE leasehold.task SET delete_at = delete_at - interval '1 day'");
      let deleted = 0;
      do deleted = await database.tasks.collect(100);
      while (deleted > 0);
      await client.query("VACUUM leasehold.task, leasehold.attempt");
      const { rows } = await client.query(
        `SELECT (SELECT count(*)::int FROM leasehold.task) AS tasks,
           (SELECT count(*)::int FROM leasehold.attempt) AS attempts,
           ((pg_table_size('leasehold.task') + pg_table_size('leasehold.attempt')) / 8192)::int AS pages`,
      );
      sizes.push(rows[0]);
    }
    const counts = sizes.slice(6).map(({ tasks, attempts }) => [tasks, attempts]);
    const kept = 2 * (PER_DAY / 3) * 2 + 4 * (PER_DAY / 3);
    expect(counts).toEqual(counts.map(() => [kept, kept]));
    const [early, late] = [sizes[9]?.pages ?? 0, sizes[29]?.pages ?? 0];
    expect(late).toBeLessThanOrEqual(early * 1.25);
  });

  it("are found by an index, and skipped while another transaction has them", async () => {
    await endTasks(30);
    await client.query("UPDATE leasehold.task SET delete_at = now() - interval '1 second'");
    await client.query("ANALYZE leasehold.task");
    const { rows } = await client.query(`EXPLAIN ${COLLECT.replace("$1::int", "10")}`);
    const plan = rows.map((row) => row["QUERY PLAN"]).join("\n");
    expect(plan).toContain("task_deletion");
    await client.query("BEGIN");
    const locked = await client.query(
      "SELECT id FROM leasehold.task ORDER BY delete_at LIMIT 5 FOR UPDATE",
    );
    while ((await database.tasks.collect(10)) > 0);
    await client.query("COMMIT");
    const { items } = await database.tasks.list({ namespace: "n" });
    expect(items.map(({ id }) => id).sort()).toEqual(locked.rows.map(({ id }) => id).sort());
    expect(await database.tasks.collect(10)).toBe(5);
  });
});
