-- Locks the API keys of a namespace against concurrent additions.
-- $1 namespace

SELECT pg_advisory_xact_lock(hashtextextended('leasehold keys of ' || $1, 0))
