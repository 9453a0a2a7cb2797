-- Reads whether an API key was ever created; ended ones are collected, the audit is not.

SELECT EXISTS (SELECT FROM leasehold.api_key)
  OR EXISTS (SELECT FROM leasehold.audit a WHERE a.action = 'key.create') AS existed
