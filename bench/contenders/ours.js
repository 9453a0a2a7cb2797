// Our worker, through the public API. Each task has a lease, completions are fenced, and the store keeps
// outputs and attempts.

import { connect, defineTask } from "leasehold";
import { openPool } from "./pool.js";
import {
  addingInBulk,
  Countdown,
  enqueueing,
  rateDuring,
  startLatencies,
  untilNone,
} from "./until.js";

/** The most handlers that may run at once. The worker completes tasks in the batches that it claimed. */
const CONCURRENCY = 500;
/** A usual setting, for handlers that do real work. */
const PLAIN_CONCURRENCY = 10;
const UNFINISHED = `SELECT FROM leasehold.task WHERE namespace = 'default' AND queue = 'default'
  AND state = 'pending' UNION ALL
  SELECT FROM leasehold.task WHERE state = 'running' LIMIT 1`;

/** Ids grow in the order of insertion, as UUIDv7 do. */
const LOAD = `INSERT INTO leasehold.task (namespace, id, state, kind, queue, priority, data,
    max_attempts, crash_limit, backoff_ms, max_backoff_ms, created_at, scheduled_at)
  SELECT 'default', ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0')), 'pending', 'noop',
    'default', 0, '{"n":' || n || '}', 10, 10, 1000, 3600000, now(), now()
  FROM generate_series(1, $1::int) n`;

/**
 * Replaces all tasks by `count` pending ones.
 * @param {import("pg").Pool} pool
 * @param {number} count
 */
export async function load(pool, count) {
  await pool.query("TRUNCATE leasehold.task, leasehold.attempt, leasehold.claim");
  await pool.query(LOAD, [count]);
  await pool.query("VACUUM ANALYZE leasehold.task, leasehold.attempt");
}

/** @param {string} url */
export async function open(url) {
  const pool = openPool(url, 2);
  const tasksClient = await connect(url);
  const tasks = tasksClient.tasks;
  const noop = defineTask("noop");
  const done = new Countdown();
  let started = () => {};
  const handler = noop.handle(() => {
    done.one();
    started();
    return null;
  });
  /** @type {import("./process.js").Contender} */
  const contender = {
    load: (count) => load(pool, count),
    async drain(count) {
      const handled = done.of(count);
      const begin = performance.now();
      const worker = tasks.work([handler], { concurrency: CONCURRENCY });
      await handled;
      await untilNone(pool, UNFINISHED);
      const tookMs = performance.now() - begin;
      await worker.close();
      return tookMs;
    },
    enqueue: (count) => enqueueing(count, (n) => tasks.enqueue(noop, { n })),
    enqueueAll: (count) =>
      addingInBulk(
        count,
        (n) => ({ data: { n } }),
        (added) => tasks.enqueueAll(noop, added),
      ),
    async latencies(times) {
      const worker = tasks.work([handler], { concurrency: PLAIN_CONCURRENCY });
      const latencies = await startLatencies(
        times,
        () => tasks.enqueue(noop, { n: 1 }),
        (start) => {
          started = start;
        },
      );
      await worker.close();
      return latencies;
    },
    async rate(forMs) {
      const worker = tasks.work([handler], { concurrency: PLAIN_CONCURRENCY });
      const rate = await rateDuring(done, forMs);
      await worker.close();
      return rate;
    },
    async close() {
      await tasksClient.close();
      await pool.end();
    },
  };
  return contender;
}
