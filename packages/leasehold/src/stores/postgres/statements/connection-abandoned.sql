-- Ends statements whose connection is gone, where the server can. Sent once a session.

DO $$ BEGIN
  PERFORM set_config('client_connection_check_interval', '1s', false);
EXCEPTION WHEN undefined_object OR invalid_parameter_value THEN NULL;
END $$
