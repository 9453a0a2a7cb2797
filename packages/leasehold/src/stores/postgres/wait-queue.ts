/** The wait queue in SQL: the waiters of each resource, in queue order. */
import { LONGEST_WAITER_MS, MOST_AWAITED, RESERVED_MS } from "../../core/index.js";
import { CHANNEL } from "./connection.js";
import { excludes } from "./lease-rows.js";
import { afterMs, grantId, SAME_KEY } from "./statements.js";

/** The number of waiters before each request, and the time reserved for them by core/queue.ts. */
export const waitersBefore = (which: string) => ` CROSS JOIN LATERAL (
      SELECT count(*)::int AS ahead,
        least(count(*), ${MOST_AWAITED}) * interval '${RESERVED_MS} milliseconds' AS turns
      FROM leasehold.waiter w
      WHERE ${SAME_KEY("w", "i")} AND w.expires_at > c.now
        AND s.lease_id <> i.asked_id AND ${which}
        AND w.place < coalesce((
          SELECT own.place FROM leasehold.waiter own
          WHERE ${SAME_KEY("own", "i")} AND own.lease_id = i.asked_id AND own.expires_at > c.now
        ), ${2n ** 63n - 1n})
    ) q`;
export const FIRST_WAITER = `(
        SELECT w.holder FROM leasehold.waiter w
        WHERE ${SAME_KEY("w", "s")} AND w.expires_at > c.now AND s.ahead > 0
        ORDER BY w.place LIMIT 1
      )`;

/** Adds a waiter for each refused request, and removes the waiters that were served or passed over. */
export const WAITING = `noted AS (
    INSERT INTO leasehold.waiter AS w (namespace, resource, lease_id, holder, expires_at)
    SELECT o.namespace, o.resource, o.asked_id, o.asked_by,
      ${afterMs(`least(o.queue_ms, ${LONGEST_WAITER_MS})`)}
    FROM outcome o CROSS JOIN clock c
    WHERE o.status = 'held' AND o.queue_ms > 0 AND NOT EXISTS (
      -- The waiter's expiry is late enough: frequent polls need not write each time.
      SELECT FROM leasehold.waiter w
      WHERE ${SAME_KEY("w", "o")} AND w.lease_id = o.asked_id
        AND w.expires_at > ${afterMs(`least(o.queue_ms, ${LONGEST_WAITER_MS}) / 2`)}
    )
    ORDER BY o.namespace COLLATE "C", o.resource COLLATE "C", o.asked_id COLLATE "C"
    ON CONFLICT (namespace, resource, lease_id) DO UPDATE
      SET expires_at = greatest(w.expires_at, excluded.expires_at)
    RETURNING 1
  ),
  waiting AS MATERIALIZED (
    SELECT w.namespace, w.resource, w.lease_id FROM outcome o
      JOIN leasehold.waiter own ON ${SAME_KEY("own", "o")} AND own.lease_id = o.asked_id
      JOIN leasehold.waiter w ON ${SAME_KEY("w", "o")} AND w.place <= own.place
    WHERE o.status = 'acquired' AND (SELECT count(*) FROM noted) >= 0
    FOR UPDATE OF w SKIP LOCKED
  ),
  served AS (
    DELETE FROM leasehold.waiter w USING waiting o
    WHERE ${SAME_KEY("w", "o")} AND w.lease_id = o.lease_id
    RETURNING 1
  )`;

/** Wakes the first waiter of the key, if there is one. */
export const wakeFirst = (row: string, which = "true") => `(
    SELECT pg_notify('${CHANNEL}', json_build_array('lease', f.namespace, f.resource, f.wakes)::text)::text
    FROM (
      SELECT w.namespace, w.resource, ${grantId("w")} AS wakes FROM leasehold.waiter w
      WHERE ${SAME_KEY("w", row)} AND w.expires_at > c.now AND ${which}
      ORDER BY w.place LIMIT 1
    ) f
  )`;

/** Removes the waiters whose lease ids are released, and wakes the next ones. */
export const PASSED_ON = `ticket AS MATERIALIZED (
    SELECT w.*, coalesce(${excludes("s")}, false) AS excluded
    FROM seen s CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT w.namespace, w.resource, w.lease_id FROM leasehold.waiter w
      WHERE ${SAME_KEY("w", "s")} AND w.lease_id = s.asked_id
      FOR UPDATE OF w SKIP LOCKED
    ) w
  ),
  withdrawn AS (
    DELETE FROM leasehold.waiter w USING ticket t
    WHERE ${SAME_KEY("w", "t")} AND w.lease_id = t.lease_id
    RETURNING w.namespace, w.resource, w.place, t.excluded
  ),
  -- A resource reserved for this waiter is now reserved for the next one.
  passed_on AS MATERIALIZED (
    SELECT ${wakeFirst("t", "w.place > t.place")} FROM withdrawn t CROSS JOIN clock c
    WHERE NOT t.excluded
  )`;

/** Values: namespace, resource. The waiters, the head of the queue first. */
export const WAITERS = `
SELECT w.holder, ${grantId("w")} AS "grantId" FROM leasehold.waiter w
WHERE w.namespace = $1 AND w.resource = $2 AND w.expires_at > clock_timestamp()
ORDER BY w.place`;

/** Deletes expired waiters. */
export const COLLECT_WAITERS = `
WITH gone AS MATERIALIZED (
  SELECT namespace, resource, lease_id FROM leasehold.waiter
  WHERE expires_at <= clock_timestamp() FOR UPDATE SKIP LOCKED
)
DELETE FROM leasehold.waiter w USING gone g
WHERE ${SAME_KEY("w", "g")} AND w.lease_id = g.lease_id`;
