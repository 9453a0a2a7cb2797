-- Reads whether any API key has not ended.

SELECT EXISTS (SELECT FROM leasehold.api_key k WHERE (k.expires_at IS NULL OR k.expires_at > clock_timestamp())) AS any
