-- Reads what the generator does.
-- $1 namespace

SELECT running, rate_per_second AS "ratePerSecond" FROM leasehold.generator WHERE namespace = $1
