/** What a report on one task costs while many others run: a lookup by its id, not a search among the running ones. */
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import {
  openPostgres,
  type PostgresDatabase,
} from "../../packages/leasehold/src/stores/postgres/index.js";
import { COMPLETE_LIVE } from "../../packages/leasehold/src/stores/postgres/task-lean-statements.js";
import { HEARTBEAT } from "../../packages/leasehold/src/stores/postgres/task-statements.js";
import { describePostgres, type FreshDatabase, freshDatabase } from "../support/postgres.js";

const RUNNING = 500;
/** The statistics are from before the tasks were claimed, as those of a queue mostly are. */
const FILL = [
  `INSERT INTO leasehold.task (namespace, id, state, kind, queue, priority, scheduled_at, data,
     max_attempts, crash_limit, backoff_ms, max_backoff_ms, created_at)
   SELECT 'n', 'task ' || g, 'pending', 'kind', 'queue', 0, now(), 'null', 1, 1, 1, 1, now()
   FROM generate_series(1, 20000) g`,
  "VACUUM ANALYZE leasehold.task",
  `UPDATE leasehold.task SET state = 'running', attempt = 1, token = 7, lease_id = 'a', holder = 'h',
     ttl_ms = 1000, started_at = now(), expires_at = now() + interval '1 hour'
   WHERE seq <= ${RUNNING}`,
];

describePostgres("a report on a task in PostgreSQL", () => {
  let fresh: FreshDatabase;
  let database: PostgresDatabase;
  let client: pg.Client;
  beforeAll(async () => {
    fresh = await freshDatabase();
    database = await openPostgres({ url: fresh.url }, systemEnv);
    client = new pg.Client({ connectionString: fresh.url });
    await client.connect();
    for (const text of FILL) await client.query(text);
  }, 60_000);
  afterAll(async () => {
    await client.end();
    await database.close();
    await fresh.drop();
  });

  it.each([
    ["completion", COMPLETE_LIVE, ["n", ["task 9"], ["a"], [7], ["null"]]],
    ["heartbeat", HEARTBEAT, [["n"], ["task 8"], ["a"], [7], [1_000], [null], [null]]],
  ])("reads no other running task (%s)", async (_, text, values) => {
    const { rows } = await client.query(`EXPLAIN (ANALYZE, FORMAT JSON) ${text}`, values);
    const passed: number[] = [];
    const visit = (node: Record<string, unknown>): void => {
      const loops = Number(node["Actual Loops"]);
      passed.push(Number(node["Rows Removed by Filter"] ?? 0) * loops);
      for (const child of (node["Plans"] ?? []) as Record<string, unknown>[]) visit(child);
    };
    visit(rows[0]["QUERY PLAN"][0].Plan);
    expect(Math.max(...passed)).toBe(0);
  });
});
