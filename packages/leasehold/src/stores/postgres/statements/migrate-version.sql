-- Reads how many migrations have been applied.

SELECT coalesce(max(version), 0)::int AS version FROM leasehold.migration
