-- Reads how tasks have ended, up to 256 KiB of outputs.
-- $1 namespaces
-- $2 ids

SELECT r.n::int AS n, r.state, r.fits, CASE WHEN r.fits THEN CASE WHEN r.state = 'done' THEN r.output WHEN r.state IN ('dead', 'cancelled', 'expired') THEN r.error END END AS text
FROM (
  SELECT i.n, t.state, t.output, t.error, b.bytes = sum(b.bytes) OVER upto
    OR sum(b.bytes) OVER upto <= 262144 AS fits
  FROM unnest((SELECT $1::text[]), (SELECT $2::text[]))
      WITH ORDINALITY AS i (namespace, id, n) JOIN leasehold.task t ON t.namespace = i.namespace AND t.id = i.id
    CROSS JOIN LATERAL (SELECT coalesce(octet_length(CASE WHEN t.state = 'done' THEN t.output WHEN t.state IN ('dead', 'cancelled', 'expired') THEN t.error END), 0) AS bytes) b
  WINDOW upto AS (ORDER BY i.n ROWS UNBOUNDED PRECEDING)
) r
