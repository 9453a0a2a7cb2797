// Whether a busy concurrency key slows the tasks of other keys.
//
// ratio = tasks of other keys claimed and completed per second, 100 at a time, out of a million, while a key of
//         100,000 pending tasks waits for one that runs / the same without that key. Ten tasks have a key each.
import { randomBytes } from "node:crypto";
import { openStores } from "leasehold";
import pg from "pg";
import { interleaved, metered } from "../measure.js";
import { ratioRow } from "../rows.js";

const BATCH = 100;
const PER_KEY = 10;
const PARTS = 10;
const TASKS = `INSERT INTO leasehold.task (namespace, id, state, kind, queue, priority, data,
    max_attempts, crash_limit, backoff_ms, max_backoff_ms, created_at, scheduled_at,
    concurrency_key, concurrency_limit)
  SELECT 'default', $1 || n, 'pending', 'noop', 'default', 0, 'null', 10, 10, 1000, 3600000, now(), now(),
    $1 || n % ($2::int / $3::int), 1
  FROM generate_series(1, $2::int) n`;

/** @type {import("../measure.js").Question} */
export default {
  question: "A busy concurrency key beside those of others",
  async run({ engines, size, progress }) {
    const others = size(1_000_000, 30_000);
    const hot = size(100_000, 10_000);
    const cpu = await engines.cpu("postgres");
    const forMs = size(3_000, 700);
    const sides = { beside: await opened(engines), without: await opened(engines) };
    progress(`loading ${2 * others + hot}`);
    await sides.beside.sql.query(TASKS, ["hot ", hot, hot]);
    await claim(sides.beside.stores, 1);
    // By turns: of a database that is loaded first, less would be cached in the rounds.
    for (let part = 0; part < PARTS; part += 1) {
      for (const { sql } of Object.values(sides)) {
        await sql.query(TASKS, [`other ${part} `, others / PARTS, PER_KEY]);
      }
    }
    for (const { sql } of Object.values(sides)) await sql.query("VACUUM ANALYZE");
    await sides.beside.sql.query("CHECKPOINT");
    const { beside, without } = await interleaved(
      size(7, 3),
      {
        beside: () => metered(cpu, () => drain(sides.beside.stores, forMs)),
        without: () => metered(cpu, () => drain(sides.without.stores, forMs)),
      },
      progress,
    );
    for (const { stores, sql } of Object.values(sides)) {
      await stores.close();
      await sql.end();
    }
    const target = {
      id: "hot-key",
      what: `tasks of other keys beside a key of ${hot.toLocaleString("en")}`,
      beside: "without that key",
      reach: 0.8,
      better: /** @type {const} */ ("higher"),
    };
    return [ratioRow(target, "/s", { beside, without })];
  },
};

/** @param {import("../engines.js").Engines} engines */
async function opened(engines) {
  const url = await engines.freshDatabase();
  const stores = await openStores(url);
  const sql = new pg.Client({ connectionString: url });
  await sql.connect();
  return { stores, sql };
}

/**
 * @param {Awaited<ReturnType<typeof openStores>>} stores
 * @param {number} limit
 */
async function claim({ tasks }, limit) {
  if (!tasks) throw new Error("PostgreSQL keeps tasks");
  const outcome = await tasks.claim({
    namespace: "default",
    holder: "bench",
    queues: ["default"],
    kinds: null,
    claimId: randomBytes(16).toString("hex"),
    limit,
    ttlMs: 3_600_000,
  });
  if (outcome.status === "failed") throw outcome.error;
  if (outcome.tasks.length === 0) throw new Error("there are not enough tasks");
  return { tasks, claimed: outcome.tasks };
}

/**
 * @param {Awaited<ReturnType<typeof openStores>>} stores
 * @param {number} forMs
 */
async function drain(stores, forMs) {
  const begin = performance.now();
  let done = 0;
  let workedMs = 0;
  while (workedMs < forMs) {
    const { tasks, claimed } = await claim(stores, BATCH);
    const outcomes = await tasks.complete(
      claimed.map(({ id, leaseId, token }) => ({
        namespace: "default",
        id,
        leaseId,
        token,
        output: null,
      })),
    );
    if (outcomes.some(({ status }) => status !== "completed")) throw new Error("not completed");
    done += outcomes.length;
    workedMs = performance.now() - begin;
  }
  return { value: (done / workedMs) * 1_000, count: done };
}
