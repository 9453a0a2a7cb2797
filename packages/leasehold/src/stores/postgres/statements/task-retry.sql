-- Makes each dead or cancelled task pending again, and each pending one due at once.
-- $1 namespaces
-- $2 ids

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  input AS MATERIALIZED (SELECT * FROM unnest((SELECT $1::text[]), (SELECT $2::text[]))
      WITH ORDINALITY AS i (namespace, id, n)),
  held AS MATERIALIZED (
    SELECT i.*, t.* FROM (SELECT * FROM input ORDER BY namespace COLLATE "C", id COLLATE "C") i
      CROSS JOIN clock c CROSS JOIN LATERAL (
        SELECT t.ctid AS at, t.kind, t.dedupe_key, t.state FROM leasehold.task t
        WHERE t.namespace = i.namespace AND t.id = i.id AND (t.state = 'pending' OR (t.state IN ('dead', 'cancelled', 'expired') AND NOT EXISTS (
      SELECT FROM leasehold.task rival WHERE rival.namespace = t.namespace
        AND rival.kind = t.kind AND rival.dedupe_key = t.dedupe_key
        AND rival.state IN ('pending', 'running') AND rival.id <> t.id
    )))
        FOR NO KEY UPDATE OF t SKIP LOCKED
      ) t
  ),
  ranked AS (
    SELECT h.*, row_number() OVER (PARTITION BY h.namespace, h.kind, h.dedupe_key ORDER BY h.n) AS rank
    FROM held h
  ),
  changed AS (
    UPDATE leasehold.task t SET state = 'pending', failures = 0, crashes = 0, postponed = 0,
      finished_at = NULL, delete_at = NULL,
      start_by = CASE WHEN h.state = 'pending' THEN t.start_by END,
      scheduled_at = CASE WHEN h.state = 'pending' THEN least(t.scheduled_at, c.now) ELSE c.now END
    FROM ranked h CROSS JOIN clock c
    WHERE t.ctid = h.at AND (h.state = 'pending' OR h.dedupe_key IS NULL OR h.rank = 1)
    RETURNING h.n, t.namespace, t.queue
  ),
  notified AS MATERIALIZED (
    SELECT pg_notify('leasehold', json_build_array('task', q.namespace, q.queue)::text)
    FROM (SELECT DISTINCT x.namespace, x.queue FROM changed x) q
  )
SELECT x.n::int AS n, (SELECT count(*) FROM notified)::int AS notified FROM changed x
