/**
 * Tasks of limited kinds, on PostgreSQL, while their workers are killed: the history of all leases shows that never more of
 * a kind were live than its limit, and that never more started in a window than its rate lets. With TEST_FULL=1: ten times as
 * many tasks and five times as many kills.
 * @module-tag safety
 */
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { connect, defineTask } from "../../packages/leasehold/src/index.js";
import {
  describePostgres,
  type PostgresServer,
  startPostgres,
} from "../support/engines/postgres.js";
import { compile } from "../support/processes/compile.js";
import type { WorkerSettings } from "../support/processes/limit-worker.js";
import { Child, endAll } from "../support/processes/processes.js";
import { repetitions } from "../support/runner/full.js";

const WORKERS = 4;
const TASKS = repetitions({ usual: 400, full: 4_000 });
const KILLED = repetitions({ usual: 6, full: 30 });
const TTL_MS = 1_000;
const TEST_TIMEOUT_MS = repetitions({ usual: 120_000, full: 900_000 });
const RUNNING = 5;
const RATE = { limit: 20, perMs: 200 };
const LIMITS = { limited: { running: RUNNING }, rated: { rate: RATE }, free: null };

/** A lease that expired had ended before it was reaped. */
const LEASES = `
SELECT t.kind, a.started_at, CASE WHEN a.result = 'expired'
    THEN coalesce(a.heartbeat_at, a.started_at) + a.ttl_ms * interval '1 millisecond'
    ELSE a.ended_at END AS ended_at, a.result
FROM leasehold.attempt a JOIN leasehold.task t ON t.namespace = a.namespace AND t.seq = a.task_seq`;
const MOST_LIVE = `
SELECT max(c.live)::int AS most FROM (
  SELECT sum(e.change) OVER (ORDER BY e.at, e.change ROWS UNBOUNDED PRECEDING) AS live FROM (
    SELECT started_at AS at, 1 AS change FROM (${LEASES}) l WHERE kind = 'limited'
    UNION ALL
    SELECT ended_at, -1 FROM (${LEASES}) l WHERE kind = 'limited'
  ) e
) c`;
const STARTS = `
SELECT (extract(epoch FROM started_at) * 1000000)::bigint::text AS at
FROM (${LEASES}) l WHERE kind = 'rated' ORDER BY started_at`;

describePostgres("tasks of limited kinds, on workers that are killed", () => {
  let database: PostgresServer;
  let program: Awaited<ReturnType<typeof compile>>;
  beforeAll(async () => {
    database = await startPostgres({ settings: { max_connections: 20 + 16 * WORKERS } });
    program = await compile(new URL("../support/processes/limit-worker.ts", import.meta.url));
  });
  afterEach(() => endAll());
  afterAll(async () => {
    await program.remove();
    await database.remove();
  });

  it(
    "are all done, never more at once than the limit, never more in a window than the rate",
    async () => {
      const leasehold = await connect(database.url);
      const options = {
        backoff: { firstMs: 50, longestMs: 200 },
        maxAttempts: 1_000,
        crashLimit: 1_000,
      };
      const settings: WorkerSettings = {
        url: database.url,
        limits: LIMITS,
        concurrency: 20,
        ttlMs: TTL_MS,
        failing: 0.02,
      };
      const start = () => new Child(process.execPath, [program.path, JSON.stringify(settings)]);
      for (const kind of Object.keys(LIMITS)) {
        const tasks = Array.from({ length: TASKS }, (_, n) => ({ data: n }));
        await leasehold.tasks.enqueueAll(defineTask<number>(kind, options), tasks);
      }
      const all = TASKS * Object.keys(LIMITS).length;
      const fleet = Array.from({ length: WORKERS }, start);
      const done = async () => (await leasehold.tasks.counts()).done;
      for (let killed = 0; killed < KILLED; killed += 1) {
        while ((await done()) < (killed * all) / (KILLED + 1)) await delay(10);
        const at = killed % WORKERS;
        await fleet[at]?.end("SIGKILL");
        fleet[at] = start();
      }
      while ((await done()) < all) await delay(20);
      const { dead, cancelled, pending, running } = await leasehold.tasks.counts();
      expect({ dead, cancelled, pending, running }).toEqual({
        dead: 0,
        cancelled: 0,
        pending: 0,
        running: 0,
      });
      const limits = await leasehold.tasks.limits.list();
      expect(limits.map(({ name, live }) => [name, live])).toEqual([
        ["limited", 0],
        ["rated", 0],
      ]);
      await leasehold.close();
      const admin = new pg.Client({ connectionString: database.url });
      await admin.connect();
      const { rows } = await admin.query<{ most: number }>(MOST_LIVE);
      // As many as may, or the test shows nothing.
      expect(rows).toEqual([{ most: RUNNING }]);
      const starts = (await admin.query<{ at: string }>(STARTS)).rows.map(({ at }) => Number(at));
      expect(starts.length).toBeGreaterThanOrEqual(TASKS);
      expect(mostInWindow(starts)).toBe(RATE.limit);
      const expired = await admin.query<{ n: number }>(
        "SELECT count(*)::int AS n FROM leasehold.attempt WHERE result = 'expired'",
      );
      // Else the kills have hit nothing.
      expect(expired.rows[0]?.n).toBeGreaterThan(0);
      await admin.end();
    },
    TEST_TIMEOUT_MS,
  );
});

/** @param starts in microseconds, in order. A window begins with the first start after the last one has ended */
function mostInWindow(starts: readonly number[]): number {
  let [most, used, endsAt] = [0, 0, Number.NEGATIVE_INFINITY];
  for (const at of starts) {
    if (at >= endsAt) [used, endsAt] = [0, at + RATE.perMs * 1_000];
    used += 1;
    most = Math.max(most, used);
  }
  return most;
}
