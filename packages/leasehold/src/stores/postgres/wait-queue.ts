/** The wait queue in SQL: the waiters of each resource, in queue order. */
import { CHANNEL } from "./connection.js";
import { grantId, SAME_KEY } from "./sql-parts.js";

/** More requests than a statement has. */
const REQUESTS = 2 ** 20;
/**
 * The place of a new waiter, behind all that are there: by transaction, then by the order of the batch. The
 * column's own sequence would follow the order in which rows are added.
 */
export const PLACE_OF = (n: string) => `pg_current_xact_id()::text::bigint * ${REQUESTS} + ${n}`;
/** What becomes of a waiter that asks again: it stays for longer, or comes behind the others if it has expired. */
export const COMES_AGAIN = `ON CONFLICT (namespace, resource, lease_id) DO UPDATE
      SET expires_at = greatest(w.expires_at, excluded.expires_at),
        place = CASE WHEN w.expires_at > (SELECT c.now FROM clock c) THEN w.place ELSE excluded.place END`;

/** Wakes the first waiter of the key, if there is one. */
export const wakeFirst = (row: string, which = "true") => `(
    SELECT pg_notify('${CHANNEL}', json_build_array('lease', f.namespace, f.resource, f.wakes)::text)::text
    FROM (
      SELECT w.namespace, w.resource, ${grantId("w")} AS wakes FROM leasehold.waiter w
      WHERE ${SAME_KEY("w", row)} AND w.expires_at > c.now AND ${which}
      ORDER BY w.place LIMIT 1
    ) f
  )`;

/** Values: namespace, resource. The waiters, the head of the queue first. */
export const WAITERS = `
SELECT w.holder, ${grantId("w")} AS "grantId" FROM leasehold.waiter w
WHERE w.namespace = $1 AND w.resource = $2 AND w.expires_at > clock_timestamp()
ORDER BY w.place`;

/** Values: namespace, resource, leaseId. */
export const WITHDRAW = `
DELETE FROM leasehold.waiter w WHERE w.namespace = $1 AND w.resource = $2 AND w.lease_id = $3`;
