-- Lists the waiters for a resource, the head of the queue first.
-- $1 namespace
-- $2 resource

SELECT w.holder, left(w.lease_id, 16) AS "grantId" FROM leasehold.waiter w
WHERE w.namespace = $1 AND w.resource = $2 AND w.expires_at > clock_timestamp()
ORDER BY w.place
