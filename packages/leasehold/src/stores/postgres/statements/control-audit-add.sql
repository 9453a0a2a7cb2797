-- Adds entries to the audit, and moves the end of the chain.
-- $1 seqs
-- $2 ats
-- $3 namespaces
-- $4 actors
-- $5 actions
-- $6 targets
-- $7 reasons
-- $8 phases
-- $9 details
-- $10 hashes
-- $11 lastSeq
-- $12 lastHash

WITH added AS (
  INSERT INTO leasehold.audit
    (seq, at, namespace, actor, action, target, reason, phase, details, hash)
  SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
    $7::text[], $8::text[], $9::text[], $10::text[])
)
UPDATE leasehold.audit_head SET seq = $11::bigint, hash = $12
