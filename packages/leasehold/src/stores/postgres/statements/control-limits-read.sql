-- Reads the limits of a namespace.
-- $1 namespace

SELECT leases, tasks, rate_per_second AS "ratePerSecond" FROM leasehold.tenant_limit WHERE namespace = $1
