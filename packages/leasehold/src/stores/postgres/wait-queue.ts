/** The wait queue in SQL: the waiters of each resource, in queue order. */
import { LONGEST_WAITER_MS, MOST_AWAITED, RESERVED_MS } from "../../core/index.js";
import { CHANNEL } from "./connection.js";
import { excludes, KEY, ROW } from "./lease-rows.js";
import { afterMs, type Columns, grantId, SAME_KEY, unnested } from "./sql-parts.js";

const turnsOf = (ahead: string) =>
  `least(${ahead}, ${MOST_AWAITED}) * interval '${RESERVED_MS} milliseconds'`;

/** The number of waiters before each request, and the time reserved for them by core/queue.ts. */
export const waitersBefore = (which: string) => ` CROSS JOIN LATERAL (
      SELECT count(*)::int AS ahead,
        ${turnsOf("count(*)")} AS turns
      FROM leasehold.waiter w
      WHERE ${SAME_KEY("w", "i")} AND w.expires_at > c.now
        AND s.lease_id <> i.asked_id AND ${which}
        AND w.place < coalesce((
          SELECT own.place FROM leasehold.waiter own
          WHERE ${SAME_KEY("own", "i")} AND own.lease_id = i.asked_id AND own.expires_at > c.now
        ), ${2n ** 63n - 1n})
    ) q`;

/**
 * The waiter of a request's lease id. A range with an order, and not an equation, because only the index of the
 * lease ids has that order: where the planner takes the table to be small, it would read all waiters of the key
 * instead, for each request.
 */
const ownWaiter = (request: string) => `(
              SELECT w.* FROM leasehold.waiter w
              WHERE ${SAME_KEY("w", request)}
                AND w.lease_id >= ${request}.asked_id AND w.lease_id <= ${request}.asked_id
              ORDER BY w.lease_id LIMIT 1
            )`;

/** The requests for the same key before this one, in the order of the batch. */
const EARLIER = `earlier AS (PARTITION BY i.namespace, i.resource ORDER BY i.n
          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)`;
/** The places of the waiters of the key, sorted. Only the first request for a key has read them. */
const PLACES = "coalesce(first_value(l.places) OVER earlier, l.places)";
/**
 * `seenFor` where a key may occur several times, with different lease ids. It has the requests that can be
 * decided now: for each key those up to the first that may have the lease. The others are asked again, when
 * that one has it.
 *
 *   reserved for w    x y w z    x and y are refused, and become waiters; w gets the lease
 *                     └─┴─┘      z is asked again, and finds the lease held by w
 *
 * The waiters of a key are read once, however many requests there are: each finds its own place among the
 * sorted places. Those that become waiters come behind, in the order of the batch.
 * @param mayHave whether the request i may have the row, by the read
 */
export const seenInTurn = (columns: Columns, mayHave: string) => `seen AS MATERIALIZED (
    SELECT i.* FROM (
      SELECT i.*, count(*) FILTER (
        -- A repeated request removes the waiters before its own; the requests behind it may be theirs.
        WHERE i.lease_id IS NULL OR ${mayHave} OR i.lease_id = i.asked_id AND i.place IS NOT NULL
      ) OVER earlier AS behind
      FROM (
        SELECT i.*, ${turnsOf("i.ahead")} AS turns FROM (
          SELECT i.*, s.*, own.place, (CASE WHEN own.place IS NULL
            THEN coalesce(cardinality(${PLACES}), 0) + count(*) FILTER (
              WHERE i.queue_ms > 0 AND own.place IS NULL AND s.lease_id IS DISTINCT FROM i.asked_id
            ) OVER earlier
            ELSE width_bucket(own.place, ${PLACES}) - 1 END)::int AS ahead
          FROM (
            SELECT i.*, row_number() OVER (PARTITION BY i.namespace, i.resource ORDER BY i.n) AS nth
            FROM (
              SELECT ${KEY.map(([name]) => `i.${name} COLLATE "C" AS ${name}`).join(", ")},
                ${columns.map(([name]) => `i.${name}`).join(", ")}, i.n
              FROM ${unnested([...KEY, ...columns])}
            ) i
          ) i CROSS JOIN clock c LEFT JOIN LATERAL (
            SELECT ${ROW} FROM leasehold.lease l WHERE ${SAME_KEY("l", "i")} OFFSET 0
          ) s ON true LEFT JOIN LATERAL ${ownWaiter("i")} own ON own.expires_at > c.now
          CROSS JOIN LATERAL (
            SELECT array_agg(w.place ORDER BY w.place) AS places FROM leasehold.waiter w
            WHERE i.nth = 1 AND ${SAME_KEY("w", "i")} AND w.expires_at > c.now
          ) l
          WINDOW ${EARLIER}
        ) i
      ) i CROSS JOIN clock c
      WINDOW ${EARLIER}
    ) i WHERE i.behind = 0
  )`;
export const FIRST_WAITER = `(
        SELECT w.holder FROM leasehold.waiter w
        WHERE ${SAME_KEY("w", "s")} AND w.expires_at > c.now AND s.ahead > 0
        ORDER BY w.place LIMIT 1
      )`;

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
/** Most of the time there is no waiter: then this is asked once, not once a resource. */
export const ANY_WAITER = "(SELECT EXISTS (SELECT FROM leasehold.waiter))";

/**
 * Adds a waiter for each refused request, and removes the waiters that were served or passed over. Rows are
 * added in the order of their keys and lease ids, so that no two statements wait for each other.
 */
export const WAITING = `noted AS (
    INSERT INTO leasehold.waiter AS w (namespace, resource, lease_id, holder, expires_at, place)
    OVERRIDING SYSTEM VALUE
    SELECT o.namespace, o.resource, o.asked_id, o.asked_by,
      ${afterMs(`least(o.queue_ms, ${LONGEST_WAITER_MS})`)}, ${PLACE_OF("o.n")}
    FROM outcome o CROSS JOIN clock c
    WHERE o.status = 'held' AND o.queue_ms > 0 AND NOT EXISTS (
      -- The waiter's expiry is late enough: frequent polls need not write each time.
      SELECT FROM ${ownWaiter("o")} own
      WHERE own.expires_at > ${afterMs(`least(o.queue_ms, ${LONGEST_WAITER_MS}) / 2`)}
    )
    ORDER BY o.namespace COLLATE "C", o.resource COLLATE "C", o.asked_id COLLATE "C"
    ${COMES_AGAIN}
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
    -- A resource that this very statement releases is reserved for its first waiter, as one that was free before.
    SELECT w.*, coalesce(${excludes("s")}, false) AND NOT EXISTS (
      SELECT FROM released r WHERE ${SAME_KEY("r", "s")}
    ) AS excluded
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
