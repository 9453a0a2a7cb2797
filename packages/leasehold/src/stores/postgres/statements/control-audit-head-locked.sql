-- Locks the end of the audit chain, then reads the time.

WITH head AS MATERIALIZED (SELECT h.seq, h.hash FROM leasehold.audit_head h FOR UPDATE)
SELECT h.seq, h.hash,
  to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS at
FROM head h
