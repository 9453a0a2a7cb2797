-- Sets what the generator does. Null keeps the old value.
-- $1 namespace
-- $2 running
-- $3 ratePerSecond

INSERT INTO leasehold.generator AS g (namespace, running, rate_per_second)
VALUES ($1, coalesce($2::bool, false), coalesce($3::float8, 1))
ON CONFLICT (namespace) DO UPDATE SET
  running = coalesce($2::bool, g.running),
  rate_per_second = coalesce($3::float8, g.rate_per_second)
RETURNING running, rate_per_second AS "ratePerSecond"
