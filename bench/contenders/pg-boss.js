// pg-boss 10, 100 jobs a batch. Its own worker sleeps at least half a second between batches, so this file
// calls the same steps without the sleep: fetch, work, complete.
import PgBoss from "pg-boss";
import { openPool } from "./pool.js";
import { addingInBulk, enqueueing } from "./until.js";

const QUEUE = "noop";
const LANES = 8;
const BATCH = 100;

/** @param {string} url */
export async function open(url) {
  const boss = new PgBoss({ connectionString: url, max: 10, supervise: false, schedule: false });
  boss.on("error", console.error);
  await boss.start();
  await boss.createQueue(QUEUE);
  const pool = openPool(url, 1);
  const enqueueAll = (/** @type {number} */ count) =>
    addingInBulk(
      count,
      (n) => ({ name: QUEUE, data: { n } }),
      (jobs) => boss.insert(jobs),
    );
  /** @type {Omit<import("./process.js").Contender, "latencies" | "rate">} */
  const contender = {
    async load(count) {
      await pool.query("TRUNCATE pgboss.job");
      await enqueueAll(count);
      await pool.query("VACUUM ANALYZE pgboss.job");
    },
    async drain(count) {
      const begin = performance.now();
      let done = 0;
      await Promise.all(
        Array.from({ length: LANES }, async () => {
          for (;;) {
            const jobs = await boss.fetch(QUEUE, { batchSize: BATCH });
            if (jobs.length === 0) return;
            done += jobs.length;
            await boss.complete(
              QUEUE,
              jobs.map(({ id }) => id),
            );
          }
        }),
      );
      if (done !== count) throw new Error(`pg-boss did ${done} of ${count}`);
      return performance.now() - begin;
    },
    enqueue: (count) => enqueueing(count, (n) => boss.send(QUEUE, { n })),
    enqueueAll,
    async close() {
      await boss.stop({ graceful: false });
      await pool.end();
    },
  };
  return contender;
}
