-- Notes that API keys are in use.
-- $1 ids
-- $2 everyMs

WITH used AS MATERIALIZED (
  SELECT k.id FROM leasehold.api_key k
  WHERE k.id IN (SELECT jsonb_array_elements_text($1::jsonb))
    AND (k.last_used_at IS NULL OR k.last_used_at <= clock_timestamp() + -$2::float8 * interval '1 millisecond')
  FOR UPDATE SKIP LOCKED
)
UPDATE leasehold.api_key k SET last_used_at = clock_timestamp() FROM used u WHERE k.id = u.id
