-- Bounds how long the transaction of an operator action waits for locks, and holds them while
-- idle.

SELECT set_config('lock_timeout', '2s', true),
  set_config('idle_in_transaction_session_timeout', '5s', true)
