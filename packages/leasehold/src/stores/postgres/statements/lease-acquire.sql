-- Grants each lease of a batch that is free. For the others it returns the holder, or the caller's
-- own grant.
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
    SELECT i.*, s.*, q.*
    FROM (
      SELECT * FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]), (SELECT $4::text[]), (SELECT $5::int[]), (SELECT $6::int[]), (SELECT $7::text[]))
      WITH ORDINALITY AS i (namespace, resource, asked_id, asked_by, asked_ms, queue_ms, asked_metadata, n)
      ORDER BY i.namespace COLLATE "C", i.resource COLLATE "C"
    ) i CROSS JOIN clock c LEFT JOIN LATERAL (
      SELECT l.ctid AS at, l.lease_id, l.holder, l.token, l.ttl_ms, l.granted_at, l.renewed_at,
        l.expires_at, l.ended, l.metadata, l.paused FROM leasehold.lease l WHERE l.namespace = i.namespace AND l.resource = i.resource OFFSET 0
    ) s ON true CROSS JOIN LATERAL (
      SELECT count(*)::int AS ahead,
        least(count(*), 10) * interval '500 milliseconds' AS turns
      FROM leasehold.waiter w
      WHERE w.namespace = i.namespace AND w.resource = i.resource AND w.expires_at > c.now
        AND s.lease_id <> i.asked_id AND NOT (s.ended IS DISTINCT FROM 'released' AND s.expires_at > c.now)
        AND w.place < coalesce((
          SELECT own.place FROM leasehold.waiter own
          WHERE own.namespace = i.namespace AND own.resource = i.resource AND own.lease_id = i.asked_id AND own.expires_at > c.now
        ), 9223372036854775807)
    ) q
  ),
  locked AS MATERIALIZED (
    SELECT s.n, s.namespace, s.resource, s.asked_id, s.asked_by, s.asked_ms, s.queue_ms, s.asked_metadata, k.*
    FROM seen s CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.ctid AS at, l.lease_id, l.holder, l.token, l.ttl_ms, l.granted_at, l.renewed_at,
        l.expires_at, l.ended, l.metadata, l.paused FROM leasehold.lease l
      WHERE l.ctid = s.at AND l.lease_id <> s.asked_id AND NOT (l.ended IS DISTINCT FROM 'released' AND l.expires_at > c.now) AND NOT (c.now >= l.expires_at AND c.now < l.expires_at + s.turns)
        AND NOT l.paused
      FOR NO KEY UPDATE OF l SKIP LOCKED
    ) k
    WHERE s.lease_id <> s.asked_id AND NOT (s.ended IS DISTINCT FROM 'released' AND s.expires_at > c.now) AND NOT (c.now >= s.expires_at AND c.now < s.expires_at + s.turns)
        AND NOT s.paused
  ),
  granted AS (
    UPDATE leasehold.lease l SET
      lease_id = k.asked_id, holder = k.asked_by, metadata = k.asked_metadata, ttl_ms = k.asked_ms,
      token = greatest(k.token + 1, (SELECT f.token + 1 FROM leasehold.token_floor f WHERE f.namespace = k.namespace), c.token),
      granted_at = c.now, renewed_at = NULL, expires_at = c.now + k.asked_ms * interval '1 millisecond', ended = NULL
    FROM locked k CROSS JOIN clock c
    WHERE l.ctid = k.at
    RETURNING k.*, l.token AS new_token, l.expires_at AS new_expires_at
  ),
  created AS (
    INSERT INTO leasehold.lease AS l
      (namespace, resource, lease_id, holder, metadata, ttl_ms, token, granted_at, expires_at)
    SELECT s.namespace, s.resource, s.asked_id, s.asked_by, s.asked_metadata, s.asked_ms,
      greatest((SELECT f.token + 1 FROM leasehold.token_floor f WHERE f.namespace = s.namespace), c.token), c.now, c.now + s.asked_ms * interval '1 millisecond'
    FROM seen s CROSS JOIN clock c
    WHERE s.lease_id IS NULL AND (SELECT count(*) FROM granted) >= 0
    ON CONFLICT (namespace, resource) DO NOTHING
    RETURNING l.namespace, l.resource, l.lease_id, l.token, l.ttl_ms, l.expires_at
  ),
  above AS MATERIALIZED (
    SELECT leasehold.above_floor(x.namespace, min(x.token)) FROM created x GROUP BY x.namespace
  ),
  outcome AS (
    SELECT x.n, x.namespace, x.resource, x.asked_id, x.asked_by, x.queue_ms, 'acquired' AS status,
      x.new_token AS token, x.asked_ms AS ttl_ms, x.new_expires_at AS expires_at,
      x.holder, x.lease_id, NULL::int AS ahead, x.token AS old_token, x.ttl_ms AS old_ttl_ms,
      coalesce(x.ended, 'expired') AS old_state, x.granted_at AS old_granted_at,
      x.renewed_at AS old_renewed_at, x.expires_at AS old_expires_at, x.metadata AS old_metadata
    FROM granted x
    UNION ALL
    SELECT NULL, x.namespace, x.resource, x.lease_id, NULL, 0, 'acquired',
      x.token, x.ttl_ms, x.expires_at,
      NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM created x WHERE (SELECT count(*) FROM above) >= 0
    UNION ALL
    SELECT s.n, s.namespace, s.resource, s.asked_id, s.asked_by, s.queue_ms,
      CASE WHEN s.lease_id <> s.asked_id THEN 'held' WHEN (s.ended IS NULL AND s.expires_at > c.now) THEN 'acquired'
        ELSE 'ended' END,
      s.token, s.ttl_ms,
      -- When the resource is free for the caller, if it waits; the end of a pause is unknown.
      CASE WHEN (s.paused AND s.lease_id <> s.asked_id) THEN NULL WHEN s.lease_id <> s.asked_id AND (s.queue_ms > 0 OR NOT (s.ended IS DISTINCT FROM 'released' AND s.expires_at > c.now))
        THEN s.expires_at + s.turns ELSE s.expires_at END,
      CASE WHEN (s.paused AND s.lease_id <> s.asked_id) THEN 'paused' WHEN (s.ended IS DISTINCT FROM 'released' AND s.expires_at > c.now) THEN s.holder
        ELSE (
        SELECT w.holder FROM leasehold.waiter w
        WHERE w.namespace = s.namespace AND w.resource = s.resource AND w.expires_at > c.now AND s.ahead > 0
        ORDER BY w.place LIMIT 1
      ) END,
      CASE WHEN (s.ended IS DISTINCT FROM 'released' AND s.expires_at > c.now) AND NOT (s.paused AND s.lease_id <> s.asked_id) THEN s.lease_id END,
      CASE WHEN s.queue_ms > 0 OR NOT ((s.ended IS DISTINCT FROM 'released' AND s.expires_at > c.now) OR (s.paused AND s.lease_id <> s.asked_id)) THEN s.ahead END,
      NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM seen s CROSS JOIN clock c
    WHERE s.lease_id = s.asked_id OR (s.ended IS DISTINCT FROM 'released' AND s.expires_at > c.now) OR (c.now >= s.expires_at AND c.now < s.expires_at + s.turns) OR (s.paused AND s.lease_id <> s.asked_id)
  )
SELECT o.n::int AS n, CASE WHEN o.n IS NULL THEN o.namespace END AS namespace,
  CASE WHEN o.n IS NULL THEN o.resource END AS resource, o.status, o.token, o.ttl_ms AS "ttlMs",
  date_part('epoch', o.expires_at - c.now) * 1000 AS "remainingMs", date_part('epoch', o.expires_at) * 1000 AS "expiresAt",
  o.holder, left(o.lease_id, 16) AS "grantId", o.ahead, o.old_token AS "oldToken",
  o.old_ttl_ms AS "oldTtlMs", o.old_state AS "oldState", date_part('epoch', o.old_granted_at) * 1000 AS "oldGrantedAt",
  date_part('epoch', o.old_renewed_at) * 1000 AS "oldRenewedAt", date_part('epoch', o.old_expires_at) * 1000 AS "oldExpiresAt",
  o.old_metadata AS "oldMetadata"
FROM outcome o CROSS JOIN clock c
