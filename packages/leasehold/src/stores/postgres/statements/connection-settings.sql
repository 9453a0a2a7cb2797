-- Sets the planner's options for a session with prepared statements. Sent once a session.

SELECT set_config('enable_seqscan', 'off', false), set_config('jit', 'off', false),
  set_config('max_parallel_workers_per_gather', '0', false)
