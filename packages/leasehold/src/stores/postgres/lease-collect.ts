/** Deletes leases that ended long ago, and expired waiters. */
import { CLOCK, excludes } from "./lease-rows.js";
import { afterMs, SAME_KEY } from "./sql-parts.js";

/**
 * Deletes old ended leases in key order, one chunk per statement, and raises the token floor
 * accordingly. Values: olderThanMs, the namespace and resource to resume after, limit.
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

/** Deletes expired waiters. */
export const COLLECT_WAITERS = `
WITH gone AS MATERIALIZED (
  SELECT namespace, resource, lease_id FROM leasehold.waiter
  WHERE expires_at <= clock_timestamp() FOR UPDATE SKIP LOCKED
)
DELETE FROM leasehold.waiter w USING gone g
WHERE ${SAME_KEY("w", "g")} AND w.lease_id = g.lease_id`;
