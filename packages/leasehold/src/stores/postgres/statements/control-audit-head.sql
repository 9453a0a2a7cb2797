-- Reads the end of the audit chain.

SELECT h.seq, h.hash FROM leasehold.audit_head h
