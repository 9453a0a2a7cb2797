-- Deletes waits for results that have expired.

DELETE FROM leasehold.result_wait WHERE ctid = ANY (ARRAY(
  SELECT w.ctid FROM leasehold.result_wait w WHERE w.expires_at <= clock_timestamp() FOR UPDATE SKIP LOCKED
))
