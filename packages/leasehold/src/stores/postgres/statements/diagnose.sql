-- Reads the settings that `doctor` judges.

SELECT name, setting FROM pg_settings
  WHERE name IN ('server_version', 'fsync', 'synchronous_commit', 'default_transaction_isolation',
    'max_connections')
