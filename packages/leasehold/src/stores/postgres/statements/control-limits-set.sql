-- Sets the limits that are named. The others stay.
-- $1 namespace
-- $2 setsLeases
-- $3 leases
-- $4 setsTasks
-- $5 tasks
-- $6 setsRate
-- $7 ratePerSecond

INSERT INTO leasehold.tenant_limit AS t (namespace, leases, tasks, rate_per_second)
VALUES ($1, $3::int, $5::int, $7::float8)
ON CONFLICT (namespace) DO UPDATE SET
  leases = CASE WHEN $2::bool THEN excluded.leases ELSE t.leases END,
  tasks = CASE WHEN $4::bool THEN excluded.tasks ELSE t.tasks END,
  rate_per_second = CASE WHEN $6::bool THEN excluded.rate_per_second ELSE t.rate_per_second END
RETURNING leases, tasks, rate_per_second AS "ratePerSecond"
