-- Commits an empty message, which waits until synchronous standbys have all earlier commits.

SELECT pg_logical_emit_message(true, 'leasehold', '')::text AS at
