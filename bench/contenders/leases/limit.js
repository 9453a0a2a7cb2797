// The limit on PostgreSQL: batched statements with as little in them as the rules allow, on a table like
// ours, sent without an object per lease. It knows no waiters, pauses, token floors or history: a floor
// of the cost, not a design. As our statements must, it waits for no row lock.
import { openPool } from "../pool.js";

const IN_FLIGHT = 2;
const BATCH = 256;
// Ours as it is now, written out: a column or an index that ours gains must show in the comparison.
const TABLE = `CREATE TABLE lease (
    namespace text COLLATE "C" NOT NULL, resource text COLLATE "C" NOT NULL, lease_id text NOT NULL,
    holder text NOT NULL, token bigint NOT NULL, ttl_ms integer NOT NULL,
    granted_at timestamptz NOT NULL, renewed_at timestamptz, expires_at timestamptz NOT NULL,
    ended text CHECK (ended IN ('released', 'revoked')), metadata text,
    paused boolean NOT NULL DEFAULT false, PRIMARY KEY (namespace, resource)
  ) WITH (fillfactor = 70)`;
const ASKED = `asked AS MATERIALIZED (
    SELECT * FROM unnest($1::text[], $2::text[]) AS a (resource, lease_id)
    ORDER BY resource COLLATE "C"
  )`;
const ACQUIRE = `WITH clock AS MATERIALIZED (
    SELECT now, (extract(epoch FROM now) * 1000000)::bigint AS token
    FROM (SELECT clock_timestamp() AS now OFFSET 0) t
  ),
  ${ASKED},
  locked AS MATERIALIZED (
    SELECT a.*, k.at, k.token FROM asked a CROSS JOIN LATERAL (
      SELECT l.ctid AS at, l.token FROM lease l, clock c
      WHERE l.namespace = 'default' AND l.resource = a.resource
        AND (l.ended = 'released' OR l.expires_at <= c.now) AND NOT l.paused
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
  ),
  granted AS (
    UPDATE lease l SET lease_id = k.lease_id, holder = 'me', ttl_ms = 60000,
      token = greatest(k.token + 1, c.token), granted_at = c.now, renewed_at = NULL,
      expires_at = c.now + interval '60 s', ended = NULL
    FROM locked k, clock c WHERE l.ctid = k.at
    RETURNING l.resource, l.token
  ),
  created AS (
    INSERT INTO lease
      (namespace, resource, lease_id, holder, token, ttl_ms, granted_at, expires_at)
    SELECT 'default', a.resource, a.lease_id, 'me', c.token, 60000, c.now, c.now + interval '60 s'
    FROM asked a, clock c
    WHERE (SELECT count(*) FROM granted) >= 0
      AND NOT EXISTS (SELECT FROM locked k WHERE k.resource = a.resource)
    ON CONFLICT (namespace, resource) DO NOTHING
    RETURNING resource, token
  )
  SELECT * FROM granted UNION ALL SELECT * FROM created`;
const HELD = `WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  ${ASKED},
  locked AS MATERIALIZED (
    SELECT k.at FROM asked a CROSS JOIN LATERAL (
      SELECT l.ctid AS at FROM lease l, clock c
      WHERE l.namespace = 'default' AND l.resource = a.resource AND l.lease_id = a.lease_id
        AND l.ended IS NULL AND l.expires_at > c.now
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
  )`;
const RENEW = `${HELD}
  UPDATE lease l SET expires_at = c.now + interval '60 s', renewed_at = c.now
  FROM locked k, clock c WHERE l.ctid = k.at RETURNING l.resource, l.token, l.expires_at`;
const RELEASE = `${HELD}
  UPDATE lease l SET ended = 'released', expires_at = c.now
  FROM locked k, clock c WHERE l.ctid = k.at RETURNING l.resource`;

/**
 * @param {string} url
 * @returns {Promise<import("./phases.js").LeaseContender>}
 */
export async function open(url) {
  // Plans that scan the table while it is small would be kept when it is large.
  const options = "-c enable_seqscan=off";
  const pool = openPool(url, IN_FLIGHT, { options });
  await pool.query(TABLE);
  /** @type {readonly string[]} */
  let held = [];
  const run = (/** @type {string} */ name, /** @type {string} */ text) =>
    inBatches(held.length, async (from, to) => {
      const names = held.slice(from, to);
      const ids = names.map((_, at) => `0123456789abcdef${`${from + at}`.padStart(16, "0")}`);
      const values = [`{${names.join(",")}}`, `{${ids.join(",")}}`];
      const { rowCount } = await pool.query({ name, text, values });
      if (rowCount !== names.length) throw new Error(`${name}: ${rowCount} of ${names.length}`);
    });
  return {
    acquire(names) {
      held = names;
      return run("acquire", ACQUIRE);
    },
    renew: () => run("renew", RENEW),
    release: () => run("release", RELEASE),
    close: () => pool.end(),
  };
}

/**
 * @param {number} count
 * @param {(from: number, to: number) => Promise<void>} send
 */
async function inBatches(count, send) {
  let next = 0;
  await Promise.all(
    Array.from({ length: IN_FLIGHT }, async () => {
      while (next < count) {
        const from = next;
        next = Math.min(count, from + BATCH);
        await send(from, next);
      }
    }),
  );
}
