-- Reads whether the session may write, and its isolation level: opening is refused unless it is
-- read committed.

SELECT pg_is_in_recovery() AS "isReplica",
  current_setting('default_transaction_read_only') AS "readOnly",
  current_setting('default_transaction_isolation') AS isolation,
  current_setting('server_encoding') AS encoding
