// Whether a large database is as fast as a small one.
//
// leases: ratio = acquire and release pairs per second of 256 callers on other resources, with a
//         million live leases in the table / with a thousand
// tasks:  ratio = tasks claimed and completed per second, 100 at a time, with a million pending and a
//         million finished ones / with a thousand of each. The bench replaces claimed tasks
//         meanwhile, and does not count that time.
import { randomBytes, randomUUID } from "node:crypto";
import { connect, openStores } from "leasehold";
import pg from "pg";
import { interleaved, metered, rateOf } from "../measure.js";
import { ratioRow } from "../rows.js";

const FEW = 1_000;
const CALLERS = 256;
const BATCH = 100;

const LIVE_LEASES = `INSERT INTO leasehold.lease
    (namespace, resource, lease_id, holder, token, ttl_ms, granted_at, expires_at)
  SELECT 'default', 'live-' || n, md5(n::text), 'holder', n, 86400000, now(), now() + interval '1 day'
  FROM generate_series(1, $1::int) n`;
/** Ids grow in the order of insertion, as UUIDv7 do. Finished tasks are older than pending ones. */
const TASKS = `INSERT INTO leasehold.task (namespace, id, state, kind, queue, priority, data, output,
    max_attempts, crash_limit, backoff_ms, max_backoff_ms, created_at, scheduled_at, finished_at,
    attempt, token, lease_id, holder, ttl_ms, started_at, expires_at, result)
  SELECT 'default', ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0')),
    CASE WHEN done THEN 'done' ELSE 'pending' END, 'noop', 'default', 0, '{"n":' || n || '}',
    CASE WHEN done THEN 'null' END, 10, 10, 1000, 3600000, now(), now() + n * interval '1 us',
    CASE WHEN done THEN now() END, CASE WHEN done THEN 1 ELSE 0 END, CASE WHEN done THEN n ELSE 0 END,
    CASE WHEN done THEN md5(n::text) END, CASE WHEN done THEN 'holder' END,
    CASE WHEN done THEN 30000 END, CASE WHEN done THEN now() END, CASE WHEN done THEN now() END,
    CASE WHEN done THEN 'done' END
  FROM (SELECT n, n <= $1 AS done FROM generate_series(1, 2 * $1::int) n) x`;
const ATTEMPTS = `INSERT INTO leasehold.attempt
    (namespace, task_id, task_seq, attempt, holder, grant_id, token, started_at, ended_at, result, ttl_ms)
  SELECT namespace, id, seq, 1, holder, left(lease_id, 16), token, started_at, finished_at, 'done', ttl_ms
  FROM leasehold.task WHERE state = 'done'`;

/** @type {import("../measure.js").Question} */
export default {
  question: "Growth: the same work in a large database",
  async run({ engines, size, progress }) {
    const many = size(1_000_000, 100_000);
    const cpu = await engines.cpu("postgres");
    const forMs = size(3_000, 1_000);
    const sides = {
      few: await filled(await engines.freshDatabase(), FEW, progress),
      many: await filled(await engines.freshDatabase(), many, progress),
    };
    const rates = await interleaved(
      size(7, 3),
      {
        fewLeases: () => leaseRate(cpu, sides.few, forMs),
        manyLeases: () => leaseRate(cpu, sides.many, forMs),
        fewTasks: () => taskRate(cpu, sides.few, forMs),
        manyTasks: () => taskRate(cpu, sides.many, forMs),
      },
      progress,
    );
    for (const { leases, stores } of Object.values(sides)) {
      await leases.close();
      await stores.close();
    }
    const large = many.toLocaleString("en");
    const better = /** @type {const} */ ("higher");
    const beside = FEW.toLocaleString("en");
    const row = (
      /** @type {string} */ id,
      /** @type {string} */ what,
      /** @type {import("../measure.js").Round[]} */ inMany,
      /** @type {import("../measure.js").Round[]} */ inFew,
    ) =>
      ratioRow({ id, what, beside, reach: 0.8, better }, "/s", {
        [large]: inMany,
        [beside]: inFew,
      });
    const { manyLeases, fewLeases, manyTasks, fewTasks } = rates;
    return [
      row("growth-leases", `pairs beside ${large} live leases`, manyLeases, fewLeases),
      row("growth-tasks", `tasks beside ${large} pending, as many finished`, manyTasks, fewTasks),
    ];
  },
};

/**
 * @param {string} url of an empty database
 * @param {number} rows
 * @param {(text: string) => void} progress
 */
async function filled(url, rows, progress) {
  progress(`loading ${rows}`);
  const stores = await openStores(url);
  const leases = await connect(url, { defaults: { ttlMs: 60_000, autoRenew: false } });
  const sql = new pg.Client({ connectionString: url });
  await sql.connect();
  await sql.query(LIVE_LEASES, [rows]);
  await sql.query(TASKS, [rows]);
  await sql.query(ATTEMPTS);
  await sql.query("VACUUM ANALYZE");
  await sql.query("CHECKPOINT");
  await sql.end();
  return { leases, stores, turns: 0 };
}

/**
 * @param {import("../cpu.js").Clocks} cpu
 * @param {Awaited<ReturnType<typeof filled>>} side
 * @param {number} forMs
 */
function leaseRate(cpu, { leases }, forMs) {
  return rateOf(cpu, CALLERS, forMs, async (caller) => {
    const lease = await leases.acquire(`work-${caller}`);
    await lease.release();
  });
}

/**
 * @param {import("../cpu.js").Clocks} cpu
 * @param {Awaited<ReturnType<typeof filled>>} side
 * @param {number} forMs
 */
function taskRate(cpu, side, forMs) {
  return metered(cpu, () => claimAndComplete(side, forMs));
}

/**
 * @param {Awaited<ReturnType<typeof filled>>} side
 * @param {number} forMs
 */
async function claimAndComplete({ stores }, forMs) {
  const { tasks } = stores;
  if (!tasks) throw new Error("PostgreSQL keeps tasks");
  let [workedMs, done] = [0, 0];
  while (workedMs < forMs) {
    const begin = performance.now();
    const claim = await tasks.claim({
      namespace: "default",
      holder: "bench",
      queues: ["default"],
      kinds: null,
      claimId: randomBytes(16).toString("hex"),
      limit: BATCH,
      ttlMs: 60_000,
    });
    if (claim.status === "failed") throw claim.error;
    const outcomes = await tasks.complete(
      claim.tasks.map(({ id, leaseId, token }) => ({
        namespace: "default",
        id,
        leaseId,
        token,
        output: null,
      })),
    );
    workedMs += performance.now() - begin;
    if (outcomes.some(({ status }) => status !== "completed")) throw new Error("not completed");
    done += outcomes.length;
    await tasks.enqueue(claim.tasks.map(again));
  }
  return { value: (done / workedMs) * 1_000, count: done };
}

/** @param {import("leasehold/port").ClaimedTask} task */
function again({ kind, queue, priority, data }) {
  return {
    namespace: "default",
    id: randomUUID(),
    kind,
    queue,
    priority,
    data,
    scheduledAt: null,
    dedupeKey: null,
    maxAttempts: 10,
    crashLimit: 10,
    backoff: { firstMs: 1_000, longestMs: 3_600_000, factor: 2, jitter: 0.5 },
  };
}
