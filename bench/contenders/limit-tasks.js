// The limit for tasks on PostgreSQL: plain statements that claim and complete rows of our own table, without
// an object per task. It keeps no attempts and records no claims: a floor of the cost, not a design.
import { connect } from "leasehold";
import { load } from "./ours.js";
import { openPool } from "./pool.js";

const LANES = 2;
const BATCH = 500;
const CLAIM = `UPDATE leasehold.task t SET state = 'running', attempt = attempt + 1, holder = 'me',
    lease_id = '0123456789abcdef0123456789abcdef', ttl_ms = 30000,
    token = (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    started_at = clock_timestamp(), expires_at = clock_timestamp() + interval '30 s'
  WHERE namespace = 'default' AND seq = ANY (ARRAY(
    SELECT seq FROM leasehold.task
    WHERE namespace = 'default' AND queue = 'default' AND state = 'pending'
      AND concurrency_key IS NULL AND scheduled_at <= now()
    ORDER BY priority, scheduled_at, seq LIMIT $1 FOR UPDATE SKIP LOCKED
  )) RETURNING id, token, data`;
const COMPLETE = `UPDATE leasehold.task t SET state = 'done', finished_at = clock_timestamp(),
    output = 'null', result = 'done'
  FROM unnest($1::text[], $2::bigint[]) d (id, token)
  WHERE t.namespace = 'default' AND t.id = d.id AND t.token = d.token AND t.state = 'running'`;

/** @param {string} url */
export async function open(url) {
  await createTables(url);
  const pool = openPool(url, LANES);
  /** @type {Pick<import("./process.js").Contender, "load" | "drain" | "close">} */
  const contender = {
    load: (count) => load(pool, count),
    async drain(count) {
      const begin = performance.now();
      let done = 0;
      await Promise.all(
        Array.from({ length: LANES }, async () => {
          for (;;) {
            const { rows } = await pool.query({ name: "claim", text: CLAIM, values: [BATCH] });
            if (rows.length === 0) return;
            const values = [rows.map(({ id }) => id), rows.map(({ token }) => token)];
            const { rowCount } = await pool.query({ name: "complete", text: COMPLETE, values });
            done += rowCount ?? 0;
          }
        }),
      );
      if (done !== count) throw new Error(`${done} of ${count} tasks were completed`);
      return performance.now() - begin;
    },
    close: () => pool.end(),
  };
  return contender;
}

/** @param {string} url */
async function createTables(url) {
  const leasehold = await connect(url);
  await leasehold.close();
}
