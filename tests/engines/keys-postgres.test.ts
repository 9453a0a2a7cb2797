/** Claims of tasks with a concurrency key that meet on PostgreSQL, at the moments that matter. */
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { newLeaseId, systemEnv, systemRandom } from "../../packages/leasehold/src/env/index.js";
import {
  openPostgres,
  type PostgresDatabase,
} from "../../packages/leasehold/src/stores/postgres/index.js";
import { claimSql } from "../../packages/leasehold/src/stores/postgres/task-claim-statements.js";
import type { Concurrency, NewTask } from "../../packages/leasehold/src/tasks/port.js";
import { newTaskOf } from "../../packages/leasehold/src/testing/task-suite/new-task.js";
import { until } from "../../packages/leasehold/src/testing/waiting.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";

const namespace = "default";
const keyed = (key: string, change: Partial<Concurrency> = {}) => ({
  concurrency: { key, perKey: 1, order: "any", ...change } as const,
});

describePostgres("claims of one concurrency key", () => {
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
  const claim = async (kinds: string[] | null) => {
    const claimId = newLeaseId(systemRandom);
    const request = { namespace, claimId, holder: "h", queues: ["queue"], limit: 10 };
    const outcome = await opened.tasks.claim({ ...request, kinds, ttlMs: 60_000 });
    return outcome.status === "claimed" ? outcome.tasks : [];
  };

  it("do not count leases by a snapshot from before another claim", async () => {
    await add("first", { kind: "busy", ...keyed("busy") });
    const [first] = await claim(null);
    await opened.tasks.complete([{ namespace, id: "first", ...grantOf(first), output: null }]);
    await add("later", { kind: "busy", ...keyed("busy") });
    await add("other", { kind: "other", ...keyed("other") });
    // The row of a key without an earlier claim is about to be added: a claim waits, and its snapshot grows old.
    await client.query("BEGIN");
    await client.query(
      "INSERT INTO leasehold.task_key VALUES ($1, 'queue', 'other', 'other', now())",
      [namespace],
    );
    const old = claim(null);
    await until(expect, "the claim waits", async () => {
      const { rows } = await client.query("SELECT FROM pg_locks WHERE NOT granted");
      return rows.length > 0;
    });
    await add("urgent", { kind: "busy", priority: -1, ...keyed("busy") });
    expect((await claim(["busy"])).map(({ id }) => id)).toEqual(["urgent"]);
    await client.query("ROLLBACK");
    expect((await old).map(({ id }) => id)).toEqual(["other"]);
    expect(await claim(null)).toEqual([]);
  });

  it("read none of the tasks of a busy key for the ends of others'", async () => {
    const busy = Array.from({ length: 5_000 }, (_, n) =>
      newTaskOf({ namespace, id: `backlog ${n}` }, { queue: "backlog", ...keyed("backlog") }),
    );
    await opened.tasks.enqueue(busy);
    // The planner does not know the other keys.
    await client.query("VACUUM ANALYZE leasehold.task");
    const quiet = Array.from({ length: 20 }, (_, n) => `quiet ${n}`);
    for (const id of quiet) await add(id, { queue: "backlog", ...keyed(id) });
    await client.query("BEGIN");
    const cancel = "UPDATE leasehold.task SET state = 'cancelled' WHERE namespace = $1 AND id = $2";
    // Often enough for a plan that is kept.
    for (const id of quiet) await client.query(cancel, [namespace, id]);
    const { rows } = await client.query<{ read: number }>(
      `SELECT (seq_tup_read + idx_tup_fetch)::int AS read FROM pg_stat_xact_user_tables
       WHERE schemaname = 'leasehold' AND relname = 'task'`,
    );
    await client.query("ROLLBACK");
    expect(rows[0]?.read).toBeLessThan(1_000);
  });

  it("read none of the running tasks of others", async () => {
    const others = Array.from({ length: 2_000 }, (_, n) =>
      newTaskOf({ namespace, id: `runs ${n}` }, { queue: "running", kind: "runs" }),
    );
    const keys = Array.from({ length: 210 }, (_, n) =>
      newTaskOf({ namespace, id: `waits ${n}` }, { queue: "waiting", ...keyed(`waits ${n}`) }),
    );
    // Long keys have made the index of those that run deeper than that of all running tasks, so that the planner avoids it.
    const ended = Array.from({ length: 2_000 }, (_, n) =>
      newTaskOf({ namespace, id: `ended ${n}` }, { queue: "ended", ...keyed("k".repeat(400) + n) }),
    );
    await opened.tasks.enqueue([...others, ...keys, ...ended]);
    const set = (state: string) =>
      `UPDATE leasehold.task SET state = '${state}', expires_at = now() + interval '1 h'`;
    for (const state of ["running", "done"])
      await client.query(`${set(state)} WHERE queue = 'ended'`);
    await client.query("VACUUM ANALYZE leasehold.task");
    await client.query("SET plan_cache_mode = force_generic_plan");
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
          "waiting",
        ];
        const query = { name: "claim", text: claimSql(1, "keyed"), values };
        expect((await client.query(query)).rows).toHaveLength(10);
      }
    };
    const read = async () => {
      const { rows } = await client.query<{ read: number }>(
        `SELECT (seq_tup_read + idx_tup_fetch)::int AS read FROM pg_stat_xact_user_tables
         WHERE schemaname = 'leasehold' AND relname = 'task'`,
      );
      return rows[0]?.read ?? 0;
    };
    // The plan is kept from when no task ran.
    await claims(1);
    await client.query(`${set("running")} WHERE queue = 'running'`);
    await client.query("BEGIN");
    const before = await read();
    await claims(20);
    const after = await read();
    await client.query("ROLLBACK");
    // Each of the 200 is read by several parts of the statement.
    expect(after - before).toBeLessThan(4_000);
  });
});

function grantOf(task: { leaseId: string; token: number } | undefined) {
  if (!task) throw new Error("a task was claimed");
  return { leaseId: task.leaseId, token: task.token };
}
