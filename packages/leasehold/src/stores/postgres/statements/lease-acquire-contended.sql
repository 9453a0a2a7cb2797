-- Like lease-acquire-or-wait, for a batch in which several requests contend for a resource and
-- some wait: it decides them in their order, up to the one that it grants the lease.
-- $1 namespaces
-- $2 resources
-- $3 leaseIds
-- $4 holders
-- $5 ttlMs
-- $6 queueMs
-- $7 metadata

WITH clock AS MATERIALIZED (
    SELECT t.now, (extract(epoch FROM t.now) * 1000000)::bigint AS token
    FROM (SELECT clock_timestamp() AS now) t
  ),
  seen AS MATERIALIZED (
    SELECT i.* FROM (
      SELECT i.*, count(*) FILTER (
        -- A repeated request removes the waiters before its own; the requests behind it may be theirs.
        WHERE i.lease_id IS NULL OR i.lease_id <> i.asked_id AND NOT (i.ended IS DISTINCT FROM 'released' AND i.expires_at > c.now) AND NOT (c.now >= i.expires_at AND c.now < i.expires_at + i.turns)
        AND NOT i.paused OR i.lease_id = i.asked_id AND i.place IS NOT NULL
      ) OVER earlier AS behind
      FROM (
        SELECT i.*, least(i.ahead, 10) * interval '500 milliseconds' AS turns FROM (
          SELECT i.*, s.*, own.place, (CASE WHEN own.place IS NULL
            THEN coalesce(cardinality(coalesce(first_value(l.places) OVER earlier, l.places)), 0) + count(*) FILTER (
              WHERE i.queue_ms > 0 AND own.place IS NULL AND s.lease_id IS DISTINCT FROM i.asked_id
            ) OVER earlier
            ELSE width_bucket(own.place, coalesce(first_value(l.places) OVER earlier, l.places)) - 1 END)::int AS ahead
          FROM (
            SELECT i.*, row_number() OVER (PARTITION BY i.namespace, i.resource ORDER BY i.n) AS nth
            FROM (
              SELECT i.namespace COLLATE "C" AS namespace, i.resource COLLATE "C" AS resource,
                i.asked_id, i.asked_by, i.asked_ms, i.queue_ms, i.asked_metadata, i.n
              FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::text[]), (SELECT $5::int[]), (SELECT $6::int[]), (SELECT $7::text[]))
      WITH ORDINALITY AS i (namespace, resource, asked_id, asked_by, asked_ms, queue_ms, asked_metadata, n)
            ) i
          ) i CROSS JOIN clock c LEFT JOIN LATERAL (
            SELECT l.ctid AS at, l.lease_id, l.holder, l.token, l.ttl_ms, l.granted_at, l.renewed_at,
        l.expires_at, l.ended, l.metadata, l.paused FROM leasehold.lease l WHERE l.namespace = i.namespace AND l.resource = i.resource OFFSET 0
          ) s ON true LEFT JOIN LATERAL (
              SELECT w.* FROM leasehold.waiter w
              WHERE w.namespace = i.namespace AND w.resource = i.resource
                AND w.lease_id >= i.asked_id AND w.lease_id <= i.asked_id
              ORDER BY w.lease_id LIMIT 1
            ) own ON own.expires_at > c.now
          CROSS JOIN LATERAL (
            SELECT array_agg(w.place ORDER BY w.place) AS places FROM leasehold.waiter w
            WHERE i.nth = 1 AND w.namespace = i.namespace AND w.resource = i.resource AND w.expires_at > c.now
          ) l
          WINDOW earlier AS (PARTITION BY i.namespace, i.resource ORDER BY i.n
          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
        ) i
      ) i CROSS JOIN clock c
      WINDOW earlier AS (PARTITION BY i.namespace, i.resource ORDER BY i.n
          ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
    ) i WHERE i.behind = 0
-- lines 35 to 100 of lease-acquire.sql
  ),
  noted AS (
    INSERT INTO leasehold.waiter AS w (namespace, resource, lease_id, holder, expires_at, place)
    OVERRIDING SYSTEM VALUE
    SELECT o.namespace, o.resource, o.asked_id, o.asked_by,
      c.now + least(o.queue_ms, 60000) * interval '1 millisecond', pg_current_xact_id()::text::bigint * 1048576 + o.n
    FROM outcome o CROSS JOIN clock c
    WHERE o.status = 'held' AND o.queue_ms > 0 AND NOT EXISTS (
      -- The waiter's expiry is late enough: frequent polls need not write each time.
      SELECT FROM (
              SELECT w.* FROM leasehold.waiter w
              WHERE w.namespace = o.namespace AND w.resource = o.resource
                AND w.lease_id >= o.asked_id AND w.lease_id <= o.asked_id
              ORDER BY w.lease_id LIMIT 1
            ) own
      WHERE own.expires_at > c.now + least(o.queue_ms, 60000) / 2 * interval '1 millisecond'
    )
    ORDER BY o.namespace COLLATE "C", o.resource COLLATE "C", o.asked_id COLLATE "C"
    ON CONFLICT (namespace, resource, lease_id) DO UPDATE
      SET expires_at = greatest(w.expires_at, excluded.expires_at)
    RETURNING 1
  ),
  waiting AS MATERIALIZED (
    SELECT w.namespace, w.resource, w.lease_id FROM outcome o
      JOIN leasehold.waiter own ON own.namespace = o.namespace AND own.resource = o.resource AND own.lease_id = o.asked_id
      JOIN leasehold.waiter w ON w.namespace = o.namespace AND w.resource = o.resource AND w.place <= own.place
    WHERE o.status = 'acquired' AND (SELECT count(*) FROM noted) >= 0
    FOR UPDATE OF w SKIP LOCKED
  ),
  served AS (
    DELETE FROM leasehold.waiter w USING waiting o
    WHERE w.namespace = o.namespace AND w.resource = o.resource AND w.lease_id = o.lease_id
    RETURNING 1
-- lines 101 to 109 of lease-acquire.sql
