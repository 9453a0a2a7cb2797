/** Claims under a limit that meet on PostgreSQL, at the moments that matter. */
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newLeaseId, systemEnv, systemRandom } from "../../packages/leasehold/src/env/index.js";
import {
  openPostgres,
  type PostgresDatabase,
} from "../../packages/leasehold/src/stores/postgres/index.js";
import {
  claimedPlaces,
  claimSql,
} from "../../packages/leasehold/src/stores/postgres/task-claim-statements.js";
import type { NewTask, TaskLimits } from "../../packages/leasehold/src/tasks/port.js";
import { newTaskOf } from "../../packages/leasehold/src/testing/task-suite/new-task.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";

const namespace = "default";

describePostgres("claims under one limit", () => {
  let database: FreshDatabase;
  let opened: PostgresDatabase;
  let client: pg.Client;
  beforeAll(async () => {
    database = await freshDatabase();
    opened = await openPostgres({ url: database.url }, systemEnv);
    client = new pg.Client({ connectionString: database.url });
    await client.connect();
  });
  afterAll(async () => {
    await client.end();
    await opened.close();
    await database.drop();
  });

  const add = async (id: string, change: Partial<NewTask>) => {
    const [outcome] = await opened.tasks.enqueue([newTaskOf({ namespace, id }, change)]);
    expect(outcome).toEqual({ status: "enqueued", id });
  };
  const claim = async (
    queues: string[],
    kinds: string[] | null = null,
    by = opened,
    limit = 10,
  ) => {
    const claimId = newLeaseId(systemRandom);
    const request = { namespace, claimId, holder: "h", queues, limit, kinds };
    const outcome = await by.tasks.claim({ ...request, ttlMs: 60_000 });
    if (outcome.status === "failed") throw outcome.error;
    return outcome.tasks.map(({ id }) => id);
  };
  const declare = async (name: string, running: number) => {
    const limits = opened.tasks.limits as TaskLimits;
    const limit = { running, rate: null };
    await limits.declare({ namespace, scope: "kind", name, limit, by: "a test" });
  };

  it("do not count leases by a snapshot from before another claim", async () => {
    await declare("busy", 1);
    await add("first", { kind: "busy" });
    await add("second", { kind: "busy", queue: "slow" });
    // For this role, each read of a limit waits for a lock of the test: so the snapshot of its claim grows old.
    const role = `slow_${process.pid}`;
    await client.query(`CREATE ROLE ${role} LOGIN PASSWORD 'slow';
      GRANT USAGE ON SCHEMA leasehold TO ${role};
      GRANT ALL ON ALL TABLES IN SCHEMA leasehold TO ${role};
      GRANT ALL ON ALL SEQUENCES IN SCHEMA leasehold TO ${role}`);
    const url = new URL(database.url);
    [url.username, url.password] = [role, "slow"];
    const slow = await openPostgres({ url: url.href }, systemEnv);
    try {
      await client.query(`CREATE FUNCTION slowly() RETURNS boolean VOLATILE LANGUAGE sql AS
          'SELECT pg_advisory_xact_lock_shared(7) IS NOT NULL';
        ALTER TABLE leasehold.task_limit ENABLE ROW LEVEL SECURITY;
        CREATE POLICY slowly ON leasehold.task_limit USING (slowly())`);
      await client.query("SELECT pg_advisory_lock(7)");
      // The lean statement sees the limit, and leaves the claim to the one that waits in the same way.
      const late = claim(["slow"], null, slow);
      const waits = (at: string) =>
        until(expect, at, async () => {
          const { rows } = await client.query<{ query: string }>(
            "SELECT query FROM pg_stat_activity WHERE wait_event = 'advisory'",
          );
          return rows.some(({ query }) => query.includes(at));
        });
      await waits("task_limit");
      await client.query("SELECT pg_advisory_unlock(7), pg_advisory_lock(7)");
      await waits("seen AS");
      expect(await claim(["queue"])).toEqual(["first"]);
      await client.query("SELECT pg_advisory_unlock(7)");
      expect(await late).toEqual([]);
    } finally {
      await slow.close();
      await client.query(`ALTER TABLE leasehold.task_limit DISABLE ROW LEVEL SECURITY;
        DROP POLICY slowly ON leasehold.task_limit; DROP OWNED BY ${role}; DROP ROLE ${role}`);
    }
  });

  it("count a task whose row was locked when the limit was declared, from its next declaration on", async () => {
    await add("locked", { kind: "late", queue: "late" });
    await add("behind it", { kind: "late", queue: "late" });
    expect(await claim(["late"], null, opened, 1)).toEqual(["locked"]);
    await client.query("BEGIN; SELECT FROM leasehold.task WHERE id = 'locked' FOR UPDATE");
    await declare("late", 1);
    await client.query("COMMIT");
    await declare("late", 1);
    expect(await claim(["late"])).toEqual([]);
  });

  it("begin a new window when the clock was set back to before the last one", async () => {
    const rate = { limit: 1, perMs: 3_600_000 };
    const limits = opened.tasks.limits as TaskLimits;
    const limit = { running: null, rate };
    await limits.declare({ namespace, scope: "kind", name: "rated", limit, by: "a test" });
    const concurrency = { key: "a", perKey: 10, order: "any", rate } as const;
    const queues = ["rated", "keyed"];
    for (const n of [1, 2]) {
      await add(`rated ${n}`, { kind: "rated", queue: "rated" });
      await add(`keyed ${n}`, { kind: "free", queue: "keyed", concurrency });
    }
    expect((await claim(queues)).toSorted()).toEqual(["keyed 1", "rated 1"]);
    expect(await claim(queues)).toEqual([]);
    // As the rows are when the clock is set back by half an hour.
    const later = "interval '30 minutes'";
    await client.query(`UPDATE leasehold.task_limit SET window_start = window_start + ${later};
      UPDATE leasehold.key_rate SET window_start = window_start + ${later}, ends_at = ends_at + ${later}`);
    // A key whose rate is used up is looked at again when another task of it comes.
    await add("keyed 3", { kind: "free", queue: "keyed", concurrency });
    expect((await claim(queues)).toSorted()).toEqual(["keyed 2", "rated 2"]);
  });

  it("pass over a kind that has no place, without reading its backlog", async () => {
    await declare("full", 1);
    const backlog = Array.from({ length: 5_000 }, (_, n) =>
      newTaskOf({ namespace, id: `full ${n}` }, { kind: "full", queue: "backlog" }),
    );
    await opened.tasks.enqueue(backlog);
    await client.query("VACUUM ANALYZE leasehold.task");
    expect(await claim(["backlog"])).toEqual(["full 0"]);
    const own = new pg.Client({ connectionString: database.url });
    await own.connect();
    for (let n = 0; n < 20; n += 1) {
      await add(`other ${n}`, { kind: "other", queue: "backlog", priority: 1 });
      const kinds = n % 2 === 0 ? null : ["full", "other"];
      await own.query("BEGIN");
      const values = [namespace, `claim ${n}`, "h", 60_000, 10, kinds, 6_000, "backlog"];
      const { rows } = await own.query(claimSql(1, "limited"), values);
      expect(rows.map(({ id }) => id)).toEqual([`other ${n}`]);
      const read = await own.query<{ read: number }>(
        `SELECT (seq_tup_read + idx_tup_fetch)::int AS read FROM pg_stat_xact_user_tables
         WHERE schemaname = 'leasehold' AND relname = 'task'`,
      );
      expect(read.rows[0]?.read).toBeLessThan(200);
      await own.query("COMMIT");
    }
    await own.end();
  });

  it("read none of the running tasks of other kinds", async () => {
    await declare("some", 1_000);
    const of = (count: number, queue: string, kind: (n: number) => string) =>
      Array.from({ length: count }, (_, n) =>
        newTaskOf({ namespace, id: `${queue} ${n}` }, { queue, kind: kind(n) }),
      );
    // Long names have made the index by kind deeper than that of all running tasks, so that the planner avoids it.
    await opened.tasks.enqueue([
      ...of(2_000, "running", () => "others"),
      ...of(210, "limited", () => "some"),
      ...of(2_000, "ended", (n) => "k".repeat(240) + n),
    ]);
    const set = (state: string) =>
      `UPDATE leasehold.task SET state = '${state}', limited = true, expires_at = now() + interval '1 h'`;
    for (const state of ["running", "done"])
      await client.query(`${set(state)} WHERE queue = 'ended'`);
    await client.query("VACUUM ANALYZE leasehold.task");
    const own = new pg.Client({ connectionString: database.url });
    await own.connect();
    await own.query("SET plan_cache_mode = force_generic_plan");
    const claims = async (count: number) => {
      for (let n = 0; n < count; n += 1) {
        const values = [
          namespace,
          newLeaseId(systemRandom),
          "h",
          60_000,
          10,
          null,
          6_000,
          "limited",
        ];
        const query = { name: "claim", text: claimSql(1, "limited"), values };
        expect((await own.query(query)).rows).toHaveLength(10);
      }
    };
    const read = async () => {
      const { rows } = await own.query<{ read: number }>(
        `SELECT (seq_tup_read + idx_tup_fetch)::int AS read FROM pg_stat_xact_user_tables
         WHERE schemaname = 'leasehold' AND relname = 'task'`,
      );
      return rows[0]?.read ?? 0;
    };
    // The plan is kept from when no task ran.
    await claims(1);
    await client.query(`${set("running")} WHERE queue = 'running'`);
    await own.query("BEGIN");
    const before = await read();
    await claims(20);
    const after = await read();
    await own.query("ROLLBACK");
    await own.end();
    expect(after - before).toBeLessThan(40_000);
  });

  it("count the running tasks of each limit once, also before the tables have statistics", async () => {
    await client.query(`INSERT INTO leasehold.task_limit
        (namespace, scope, name, running_most, declared_at, declared_by)
      SELECT 'limits', 'kind', 'kind ' || n, 5, now(), 'a test' FROM generate_series(1, 300) n`);
    const own = new pg.Client({ connectionString: database.url });
    await own.connect();
    await own.query("BEGIN");
    await own.query(claimSql(1, "limited"), ["limits", "c", "h", 60_000, 10, null, 6_000, "queue"]);
    const { rows } = await own.query<{ reads: number }>(
      `SELECT (seq_scan + idx_scan)::int AS reads FROM pg_stat_xact_user_tables
       WHERE schemaname = 'leasehold' AND relname = 'task'`,
    );
    expect(rows[0]?.reads).toBeGreaterThan(300);
    expect(rows[0]?.reads).toBeLessThan(5 * 300);
    await own.query("ROLLBACK");
    await own.end();
  });

  it("look at 2,000 pairs of a queue and a kind at most, and leave none out for good", async () => {
    await declare("rare", 1);
    const queues = Array.from({ length: 20 }, (_, n) => `many ${n}`);
    const tasks = queues.flatMap((queue) =>
      Array.from({ length: 150 }, (_, n) =>
        newTaskOf({ namespace, id: `${queue}/${n}` }, { queue, kind: `kind ${n}` }),
      ),
    );
    await opened.tasks.enqueue(tasks);
    const places = claimedPlaces(queues.length);
    const padding = Array.from({ length: places - queues.length }, () => null);
    const values = [namespace, "looked at", "h", 60_000, 10, null, 6_000, ...queues, ...padding];
    await client.query("BEGIN");
    const { rows } = await client.query<{ "QUERY PLAN": [{ Plan: PlanNode }] }>(
      `EXPLAIN (ANALYZE, FORMAT JSON) ${claimSql(places, "limited")}`,
      values,
    );
    await client.query("ROLLBACK");
    expect(rowsOf(rows[0]?.["QUERY PLAN"][0].Plan, "CTE wanted")).toBe(2_000);
    const taken = new Set<string>();
    await until(expect, "all tasks are claimed", async () => {
      for (const id of await claim(queues, null, opened, 1_000)) taken.add(id);
      return taken.size === tasks.length;
    });
  });
});

interface PlanNode {
  readonly "Subplan Name"?: string;
  readonly "Actual Rows": number;
  readonly Plans?: readonly PlanNode[];
}
function rowsOf(plan: PlanNode | undefined, name: string): number | undefined {
  if (plan?.["Subplan Name"] === name) return plan["Actual Rows"];
  for (const part of plan?.Plans ?? []) {
    const found = rowsOf(part, name);
    if (found !== undefined) return found;
  }
  return undefined;
}
