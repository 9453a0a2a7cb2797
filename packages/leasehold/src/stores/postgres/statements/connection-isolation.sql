-- Reads the isolation level: opening is refused unless it is read committed.

SELECT current_setting('default_transaction_isolation') AS level
