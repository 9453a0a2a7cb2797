/** Plans of the statements of holders, with the statistics of a table in which nothing ran. */
import pg from "pg";
import { expect, it } from "vitest";
import { connect } from "../../packages/leasehold/src/index.js";
import {
  CLAIM_FIRST,
  COMPLETE_LIVE,
} from "../../packages/leasehold/src/stores/postgres/task-lean-statements.js";
import { HEARTBEAT } from "../../packages/leasehold/src/stores/postgres/task-statements.js";
import { describePostgres, freshDatabase } from "../support/engines/postgres.js";

const TASKS = 5_000;
const CLAIMED = 500;

interface PlanNode {
  readonly "Rows Removed by Filter"?: number;
  readonly "Actual Loops": number;
  readonly Plans?: readonly PlanNode[];
}
const nodesOf = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)];

describePostgres("the plans of task statements", () => {
  it("find each reported task by its own key, though the planner believes that none runs", async () => {
    const database = await freshDatabase();
    await (await connect(database.url)).close();
    const client = new pg.Client({ connectionString: database.url });
    await client.connect();
    await client.query(
      `INSERT INTO leasehold.task (namespace, id, state, kind, queue, priority, data, max_attempts,
         crash_limit, backoff_ms, max_backoff_ms, created_at, scheduled_at)
       SELECT 'default', 'task-' || n, 'pending', 'kind', 'queue', 0, 'null', 10, 10, 1, 1, now(), now()
       FROM generate_series(1, $1::int) n`,
      [TASKS],
    );
    await client.query("VACUUM ANALYZE leasehold.task");
    await client.query(CLAIM_FIRST, [
      "default",
      "c".repeat(32),
      "holder",
      60_000,
      CLAIMED,
      ["kind"],
      6_000,
      "queue",
    ]);
    const { rows } = await client.query<{ id: string; lease_id: string; token: string }>(
      "SELECT id, lease_id, token FROM leasehold.task WHERE state = 'running'",
    );
    expect(rows).toHaveLength(CLAIMED);
    const grants = [
      rows.map(({ id }) => id),
      rows.map(({ lease_id }) => lease_id),
      rows.map(({ token }) => token),
    ];
    const nothing = rows.map(() => null);
    const reports: readonly [string, unknown[]][] = [
      [HEARTBEAT, [rows.map(() => "default"), ...grants, rows.map(() => 1_000), nothing, nothing]],
      [COMPLETE_LIVE, ["default", ...grants, rows.map(() => "null")]],
    ];
    for (const [statement, values] of reports) {
      const explained = await client.query<{ "QUERY PLAN": [{ Plan: PlanNode }] }>(
        `EXPLAIN (ANALYZE, FORMAT JSON) ${statement}`,
        values,
      );
      const nodes = explained.rows.flatMap((row) => nodesOf(row["QUERY PLAN"][0].Plan));
      const passed = nodes.map(
        (node) => (node["Rows Removed by Filter"] ?? 0) * node["Actual Loops"],
      );
      expect(Math.max(...passed)).toBeLessThanOrEqual(CLAIMED);
    }
    await client.end();
    await database.drop();
  });
});
