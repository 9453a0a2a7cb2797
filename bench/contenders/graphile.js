// graphile-worker with the settings of its own benchmark: it fetches 500 jobs at a time into a local queue
// and batches completions and failures.
import { makeWorkerUtils, runTaskList } from "graphile-worker";
import { openPool } from "./pool.js";
import {
  addingInBulk,
  Countdown,
  enqueueing,
  rateDuring,
  startLatencies,
  untilNone,
} from "./until.js";

const CONCURRENCY = 24;
const PLAIN_CONCURRENCY = 10;
const BATCHED = { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
const LOAD = `SELECT graphile_worker.add_jobs(ARRAY(
  SELECT json_populate_record(NULL::graphile_worker.job_spec,
    json_build_object('identifier', 'noop', 'payload', json_build_object('n', n)))
  FROM generate_series(1, $1::int) n))`;
const UNFINISHED = "SELECT FROM graphile_worker._private_jobs LIMIT 1";

/** @param {string} url */
export async function open(url) {
  const pool = openPool(url, 10);
  // Without this it logs a warning.
  pool.on("connect", (client) => client.on("error", () => {}));
  const utils = await makeWorkerUtils({ pgPool: pool });
  await utils.migrate();
  const done = new Countdown();
  let started = () => {};
  const list = {
    noop() {
      done.one();
      started();
    },
  };
  const silent = {
    log: () => {},
    scope: () => silent,
    error() {},
    warn() {},
    info() {},
    debug() {},
  };
  /** @param {number} concurrency @param {object} settings */
  const work = (concurrency, settings) =>
    runTaskList(
      {
        concurrency,
        noHandleSignals: true,
        logger: /** @type {any} */ (silent),
        preset: { worker: { concurrentJobs: concurrency, ...settings } },
      },
      list,
      pool,
    );
  /** @type {import("./process.js").Contender} */
  const contender = {
    async load(count) {
      await pool.query("TRUNCATE graphile_worker._private_jobs");
      await pool.query(LOAD, [count]);
      await pool.query("VACUUM ANALYZE graphile_worker._private_jobs");
    },
    async drain(count) {
      const handled = done.of(count);
      const begin = performance.now();
      const worker = work(CONCURRENCY, BATCHED);
      await handled;
      await untilNone(pool, UNFINISHED);
      const tookMs = performance.now() - begin;
      await worker.gracefulShutdown();
      return tookMs;
    },
    enqueue: (count) => enqueueing(count, (n) => utils.addJob("noop", { n })),
    enqueueAll: (count) =>
      addingInBulk(
        count,
        (n) => ({ identifier: "noop", payload: { n } }),
        (jobs) => utils.addJobs(jobs),
      ),
    async latencies(times) {
      const worker = work(PLAIN_CONCURRENCY, {});
      const latencies = await startLatencies(
        times,
        () => utils.addJob("noop", { n: 1 }),
        (start) => {
          started = start;
        },
      );
      await worker.gracefulShutdown();
      return latencies;
    },
    async rate(forMs) {
      const worker = work(PLAIN_CONCURRENCY, {});
      const rate = await rateDuring(done, forMs);
      await worker.gracefulShutdown();
      return rate;
    },
    async close() {
      await utils.release();
      await pool.end();
    },
  };
  return contender;
}
