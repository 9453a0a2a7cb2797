/** Grants on tasks in SQL: what a list reads of a long history, and rows of before their columns. */
import pg from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { systemEnv } from "../../packages/leasehold/src/env/index.js";
import type { LeaseState } from "../../packages/leasehold/src/lease/index.js";
import {
  openPostgres,
  type PostgresDatabase,
} from "../../packages/leasehold/src/stores/postgres/index.js";
import { leasesSql } from "../../packages/leasehold/src/stores/postgres/task-leases.js";
import {
  describePostgres,
  type FreshDatabase,
  freshDatabase,
} from "../support/engines/postgres.js";

const TASKS = 20_000;
const LIMIT = 101;
const [NAMESPACE, OLD] = ["history", "old"];

/** One in 100 tasks runs; of two attempts on each one in 100 expired or was cancelled or renewed. */
const FILL = [
  `INSERT INTO leasehold.task (namespace, id, seq, state, kind, queue, priority, scheduled_at, data,
     max_attempts, crash_limit, backoff_ms, max_backoff_ms, created_at, attempt, token, lease_id,
     holder, ttl_ms, started_at, expires_at)
   SELECT $1, md5(g::text), g, CASE WHEN g % 100 = 0 THEN 'running' ELSE 'done' END, 'kind',
     'queue', 0, now(), 'null', 1, 1, 1, 1, now(), 3, g, g, 'holder', 1000, now(),
     now() + CASE WHEN g % 200 = 0 THEN interval '0' ELSE interval '1 hour' END
   FROM generate_series(1, $2::int) g`,
  `INSERT INTO leasehold.attempt (namespace, task_id, task_seq, attempt, holder, grant_id, token, ttl_ms,
     started_at, heartbeat_at, ended_at, result)
   SELECT $1, md5(g::text), g, a, 'holder', g::text, g, 1000, now(),
     CASE WHEN g % 100 = 1 THEN now() END, now(), CASE g % 200 WHEN 2 THEN 'expired'
       WHEN 3 THEN 'cancelled' ELSE CASE a WHEN 1 THEN 'failed' ELSE 'done' END END
   FROM generate_series(1, $2::int) g, generate_series(1, 2) a`,
];

describePostgres("leases on tasks in PostgreSQL", () => {
  let fresh: FreshDatabase;
  let database: PostgresDatabase;
  let client: pg.Client;
  beforeAll(async () => {
    fresh = await freshDatabase();
    database = await openPostgres({ url: fresh.url }, systemEnv);
    client = new pg.Client({ connectionString: fresh.url });
    await client.connect();
    for (const text of FILL) await client.query(text, [NAMESPACE, TASKS]);
    await client.query("ANALYZE leasehold.task, leasehold.attempt");
  }, 60_000);
  afterAll(async () => {
    await client.end();
    await database.close();
    await fresh.drop();
  });

  const lists: readonly (readonly LeaseState[] | undefined)[] = [
    undefined,
    ["live"],
    ["expired"],
    ["released"],
    ["revoked"],
    ["live", "released"],
  ] as const;
  const cursors = [undefined, `${TASKS / 2}.2`];
  for (const states of lists) {
    for (const renewedOnly of [false, true]) {
      const which = `${states?.join(" and ") ?? "any state"}${renewedOnly ? ", renewed" : ""}`;
      it(`reads a page, or what is rare, and not the history (${which})`, async () => {
        for (const cursor of cursors) {
          const query = { namespace: NAMESPACE, renewedOnly, ...(states && { states }) };
          const statement = leasesSql({ ...query, ...(cursor && { cursor }) }, LIMIT);
          const [text, values] = statement ?? [];
          const { rows } = await client.query<{ "QUERY PLAN": [{ Plan: PlanNode }] }>(
            `EXPLAIN (ANALYZE, FORMAT JSON) ${text}`,
            values as unknown[],
          );
          const nodes = rows.flatMap((row) => flatten(row["QUERY PLAN"][0].Plan));
          expect(nodes.filter((node) => node["Node Type"] === "Seq Scan")).toEqual([]);
          // Of 40,000 ended grants 400 are rare in each way, and 200 run.
          for (const node of nodes) {
            const { "Actual Rows": found, "Rows Removed by Filter": passed = 0 } = node;
            expect((found + passed) * node["Actual Loops"]).toBeLessThanOrEqual(400);
          }
        }
      });
    }
  }

  it("shows grants that ended before their ttl was kept", async () => {
    await client.query(
      `INSERT INTO leasehold.task SELECT t.* FROM jsonb_populate_record(NULL::leasehold.task, (
         SELECT to_jsonb(t) || $1::jsonb FROM leasehold.task t WHERE state = 'done' LIMIT 1)) t`,
      [JSON.stringify({ namespace: OLD })],
    );
    await client.query(
      `INSERT INTO leasehold.attempt (namespace, task_id, task_seq, attempt, holder, grant_id,
         token, started_at, ended_at, result)
       SELECT namespace, id, seq, 1, 'holder', 'grant', 1, now(), now(), 'done'
       FROM leasehold.task WHERE namespace = $1`,
      [OLD],
    );
    const { items } = await database.tasks.leases({ namespace: OLD });
    expect(items).toMatchObject([{ grantId: "grant", ttlMs: 0, renewedAt: null }]);
    const id = items[0]?.resource.slice("task:".length) ?? "";
    const details = await database.tasks.get({ namespace: OLD, id });
    expect(details?.attempts).toMatchObject([{ ttlMs: 0, heartbeatAt: null }]);
  });
});

interface PlanNode {
  readonly "Node Type": string;
  readonly "Actual Rows": number;
  readonly "Actual Loops": number;
  readonly "Rows Removed by Filter"?: number;
  readonly Plans?: readonly PlanNode[];
}

function flatten(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(flatten)];
}
