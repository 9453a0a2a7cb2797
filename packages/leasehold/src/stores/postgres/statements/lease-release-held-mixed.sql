-- Like lease-release-held, for requests of several namespaces.
-- $1 namespaces
-- $2 resources
-- $3 leaseIds

WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
  locked AS MATERIALIZED (
    SELECT i.n, k.*
    FROM (
      SELECT * FROM unnest((SELECT $1::text[]), (SELECT $2::text[]), (SELECT $3::text[]))
      WITH ORDINALITY AS i (namespace, resource, asked_id, n)
      ORDER BY i.namespace COLLATE "C", i.resource COLLATE "C"
    ) i CROSS JOIN clock c CROSS JOIN LATERAL (
      SELECT l.ctid AS at, l.expires_at FROM leasehold.lease l
      WHERE l.namespace = i.namespace AND l.resource = i.resource AND l.lease_id = i.asked_id AND (l.ended IS DISTINCT FROM 'released' AND l.expires_at > c.now) AND NOT ((SELECT EXISTS (SELECT FROM leasehold.waiter)) AND EXISTS (
        SELECT FROM leasehold.waiter w
        WHERE w.namespace = l.namespace AND w.resource = l.resource AND w.expires_at > c.now
-- lines 19 to 29 of lease-release-held.sql
