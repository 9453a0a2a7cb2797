/**
 * Tasks with a concurrency key, on PostgreSQL, while their workers are killed: the history of all leases shows that never more
 * of a key were live than its limit, and that they began in the order of the tasks. With TEST_FULL=1: 1,000 keys and 20,000
 * tasks.
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
import type { WorkerSettings } from "../support/processes/key-worker.js";
import { Child, endAll } from "../support/processes/processes.js";
import { repetitions } from "../support/runner/full.js";

const WORKERS = 8;
const KEYS = repetitions({ usual: 100, full: 1_000 });
const TASKS = 20 * KEYS;
const KILLED = repetitions({ usual: 12, full: 60 });
const BATCH = 100;
const TTL_MS = 1_000;
const TEST_TIMEOUT_MS = repetitions({ usual: 120_000, full: 900_000 });
/** One kind for each limit: one by one, three at a time, and three in any order. */
const LIMITS = { one: 1, three: 3, any: 3 };

/** Leases of a key that were live at once, by kind. One that expired had ended before it was reaped. */
const MOST_LIVE = `
WITH lease AS (
  SELECT t.kind, t.concurrency_key AS key, a.started_at, CASE WHEN a.result = 'expired'
      THEN coalesce(a.heartbeat_at, a.started_at) + a.ttl_ms * interval '1 millisecond'
      ELSE a.ended_at END AS ended_at
  FROM leasehold.attempt a JOIN leasehold.task t ON t.namespace = a.namespace AND t.seq = a.task_seq
)
SELECT c.kind, max(c.live)::int AS most FROM (
  SELECT e.kind, sum(e.change) OVER (PARTITION BY e.kind, e.key ORDER BY e.at, e.change
    ROWS UNBOUNDED PRECEDING) AS live
  FROM (
    SELECT kind, key, started_at AS at, 1 AS change FROM lease
    UNION ALL
    SELECT kind, key, ended_at, -1 FROM lease
  ) e
) c GROUP BY c.kind ORDER BY c.kind`;
/** Tasks of a key in order that began before one ahead of them did. */
const OVERTAKEN = `
SELECT count(*)::int AS overtaken FROM (
  SELECT t.seq, t.kind, t.concurrency_key AS key, min(a.started_at) AS began
  FROM leasehold.attempt a JOIN leasehold.task t ON t.namespace = a.namespace AND t.seq = a.task_seq
  WHERE t.kind <> 'any' GROUP BY t.seq, t.kind, t.concurrency_key
) later JOIN LATERAL (
  SELECT FROM leasehold.task t
    JOIN leasehold.attempt a ON a.namespace = t.namespace AND a.task_seq = t.seq
  WHERE t.kind = later.kind AND t.concurrency_key = later.key AND t.seq < later.seq
  GROUP BY t.seq HAVING min(a.started_at) > later.began LIMIT 1
) ahead ON true`;
/** Tasks that ran one by one, and began before the last attempt of one ahead of them had ended. */
const TOO_EARLY = `
SELECT count(*)::int AS early FROM (
  SELECT a.started_at, lag(a.ended_at) OVER own AS ended_at, t.seq < lag(t.seq) OVER own AS turned
  FROM leasehold.attempt a JOIN leasehold.task t ON t.namespace = a.namespace AND t.seq = a.task_seq
  WHERE t.kind = 'one' WINDOW own AS (PARTITION BY t.concurrency_key ORDER BY a.started_at)
) a WHERE a.started_at < a.ended_at OR a.turned`;

describePostgres("tasks with a concurrency key, on workers that are killed", () => {
  let database: PostgresServer;
  let program: Awaited<ReturnType<typeof compile>>;
  beforeAll(async () => {
    database = await startPostgres({ settings: { max_connections: 20 + 16 * WORKERS } });
    program = await compile(new URL("../support/processes/key-worker.ts", import.meta.url));
  });
  afterEach(() => endAll());
  afterAll(async () => {
    await program.remove();
    await database.remove();
  });

  it(
    "are all done, in order, and never more at once than the limit of their key",
    async () => {
      const leasehold = await connect(database.url);
      const kinds = Object.entries(LIMITS).map(([kind, perKey]) =>
        defineTask(kind, {
          concurrencyKey: (data: { key: number }) => `key ${data.key}`,
          perKey,
          order: kind === "any" ? "any" : "fifo",
          backoff: { firstMs: 50, longestMs: 200 },
          maxAttempts: 1_000,
          crashLimit: 1_000,
        }),
      );
      const settings: WorkerSettings = {
        url: database.url,
        kinds: Object.keys(LIMITS),
        concurrency: 20,
        ttlMs: TTL_MS,
        failing: 0.02,
      };
      const start = () => new Child(process.execPath, [program.path, JSON.stringify(settings)]);
      const fleet = Array.from({ length: WORKERS }, start);
      // Half of the keys are of the kind that runs one by one.
      const kindOf = (key: number) => kinds[key % 4 === 1 ? 1 : key % 4 === 3 ? 2 : 0];
      const enqueueing = (async () => {
        for (let from = 0; from < TASKS; from += BATCH) {
          const keys = Array.from({ length: BATCH }, (_, at) => (from + at) % KEYS);
          for (const kind of kinds) {
            const own = keys.filter((key) => kindOf(key) === kind);
            await leasehold.tasks.enqueueAll(
              kind,
              own.map((key) => ({ data: { key } })),
            );
          }
        }
      })();
      const done = async () => (await leasehold.tasks.counts()).done;
      for (let killed = 0; killed < KILLED; killed += 1) {
        while ((await done()) < (killed * TASKS) / (KILLED + 1)) await delay(10);
        const at = killed % WORKERS;
        await fleet[at]?.end("SIGKILL");
        fleet[at] = start();
      }
      await enqueueing;
      while ((await done()) < TASKS) await delay(20);
      const { dead, cancelled, pending, running } = await leasehold.tasks.counts();
      expect({ dead, cancelled, pending, running }).toEqual({
        dead: 0,
        cancelled: 0,
        pending: 0,
        running: 0,
      });
      const admin = new pg.Client({ connectionString: database.url });
      await admin.connect();
      await leasehold.close();
      const { rows } = await admin.query<{ kind: keyof typeof LIMITS; most: number }>(MOST_LIVE);
      expect(rows).toHaveLength(3);
      expect(rows.filter(({ kind, most }) => most > LIMITS[kind])).toEqual([]);
      expect((await admin.query(OVERTAKEN)).rows).toEqual([{ overtaken: 0 }]);
      expect((await admin.query(TOO_EARLY)).rows).toEqual([{ early: 0 }]);
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
