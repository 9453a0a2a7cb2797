/** What is read of leases, and the collection of what nobody needs any more. */
import {
  afterMs,
  CLOCK,
  epochMs,
  excludes,
  grantId,
  isLive,
  SAME_KEY,
  seenFor,
  untilMs,
} from "./lease-sql.js";

const STATE = `CASE WHEN ${isLive("l")} THEN 'live' ELSE coalesce(l.ended, 'expired') END`;
const VIEW = `l.namespace, l.resource, l.holder, ${grantId("l")} AS "grantId", l.token,
  ${STATE} AS state,
  l.ttl_ms AS "ttlMs", CASE WHEN ${isLive("l")} THEN ${untilMs("l.expires_at")} ELSE 0 END AS "remainingMs",
  ${epochMs("l.granted_at")} AS "grantedAt", ${epochMs("l.renewed_at")} AS "renewedAt",
  ${epochMs("l.expires_at")} AS "expiresAt", l.metadata`;

/** Not so the row of a resource that was paused before it was ever leased. */
const WAS_GRANTED = "l.lease_id <> ''";

/** Values: namespaces, resources. One row per key that has a record, with its number from 1. */
export const GET = `
WITH ${CLOCK}, ${seenFor([])}
SELECT l.n::int AS n, ${VIEW} FROM seen l CROSS JOIN clock c WHERE ${WAS_GRANTED}`;

/**
 * Values: namespace, first resource, end of the range (null: none), cursor, states (null: any), renewed
 * only, limit; holder, expiringWithinMs, heldForMs (null: any).
 */
export const LIST = `
WITH ${CLOCK}
SELECT ${VIEW} FROM leasehold.lease l CROSS JOIN clock c
WHERE l.namespace = $1 AND l.resource >= $2 AND ($3::text IS NULL OR l.resource < $3)
  AND l.resource > $4 AND ($5::text[] IS NULL OR ${STATE} = ANY ($5))
  AND (NOT $6::bool OR l.renewed_at IS NOT NULL) AND ${WAS_GRANTED}
  AND ($8::text IS NULL OR l.holder = $8)
  AND ($9::float8 IS NULL OR (${isLive("l")} AND l.expires_at <= ${afterMs("$9::float8")}))
  AND ($10::float8 IS NULL OR (${isLive("l")} AND l.granted_at <= ${afterMs("-($10::float8)")}))
ORDER BY l.resource
LIMIT $7::int`;

/**
 * Deletes old ended leases, in the order of their keys, a chunk a statement; raises the floor of
 * tokens with it. Values: olderThanMs, the
 * namespace and resource after which to go on, how many.
 */
export const COLLECT = `
WITH ${CLOCK},
  old AS MATERIALIZED (
    SELECT l.namespace, l.resource, l.token FROM leasehold.lease l CROSS JOIN clock c
    WHERE (l.namespace, l.resource) > ($2, $3)
      AND NOT ${excludes("l")} AND NOT l.paused AND l.expires_at <= ${afterMs("-($1::float8)")}
    ORDER BY l.namespace, l.resource
    LIMIT $4::int
    FOR UPDATE OF l SKIP LOCKED
  ),
  raised AS (
    INSERT INTO leasehold.token_floor AS f (namespace, token)
    SELECT o.namespace, max(o.token) FROM old o GROUP BY o.namespace ORDER BY o.namespace
    ON CONFLICT (namespace) DO UPDATE SET token = greatest(f.token, excluded.token)
    RETURNING 1
  ),
  deleted AS (
    DELETE FROM leasehold.lease l USING old o
    WHERE ${SAME_KEY("l", "o")} AND (SELECT count(*) FROM raised) >= 0
    RETURNING l.namespace, l.resource
  )
SELECT namespace, resource FROM deleted ORDER BY namespace, resource`;

/** Forgets those who no longer wait. */
export const COLLECT_WAITERS = `
WITH gone AS MATERIALIZED (
  SELECT namespace, resource, lease_id FROM leasehold.waiter
  WHERE expires_at <= clock_timestamp() FOR UPDATE SKIP LOCKED
)
DELETE FROM leasehold.waiter w USING gone g
WHERE ${SAME_KEY("w", "g")} AND w.lease_id = g.lease_id`;
