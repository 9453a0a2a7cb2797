/** The SQL of leases and tasks. */
import { conformance, inHistories, integration } from "../checks.js";

const LEASES = "packages/leasehold/src/stores/postgres/lease-statements.ts";
const ROWS = "packages/leasehold/src/stores/postgres/lease-rows.ts";
const ACQUIRE = "packages/leasehold/src/stores/postgres/lease-acquire-statements.ts";
const TASKS = "packages/leasehold/src/stores/postgres/task-statements.ts";
const CLAIM = "packages/leasehold/src/stores/postgres/task-claim-statements.ts";
const suite = (name) =>
  conformance("tests/conformance/postgres.test.ts", `PostgreSQL: lease store ... ${name}`);
const taskSuite = (name) =>
  conformance("tests/conformance/tasks-conformance.test.ts", `PostgreSQL: task store ... ${name}`);

export const POSTGRES = [
  {
    name: "now-before-the-lock",
    what: "The time is read before a lock is waited for, and is stale when it decides.",
    file: ROWS,
    find: "      FOR NO KEY UPDATE OF l SKIP LOCKED\n",
    by: "      FOR NO KEY UPDATE OF l\n",
    check: integration(
      "packages/leasehold/src/stores/postgres/store.test.ts",
      "never waits for locks",
    ),
  },
  {
    name: "sql-renewal-revives",
    what: "The UPDATE of a renewal does not check whether the lease has expired.",
    file: LEASES,
    find: 'WHERE ${SAME_PLACE} AND ${isLive("k")}',
    by: "WHERE ${SAME_PLACE}",
    check: suite("is refused after expiry, even without a new holder"),
  },
  {
    name: "sql-renewal-shortens",
    what: "A renewal that was overtaken by a longer one takes its time back.",
    file: LEASES,
    find: 'expires_at = greatest(k.expires_at, ${afterMs("k.asked_ms")})',
    by: 'expires_at = ${afterMs("k.asked_ms")}',
    check: suite("never shortens a grant"),
  },
  {
    name: "sql-release-by-name",
    what: "DELETE FROM locks WHERE name = ...: a late release frees the successor's lock.",
    file: LEASES,
    find: "(row) => `${row}.lease_id = s.asked_id AND ${row}.ended IS DISTINCT FROM 'released'`,",
    by: "(row) => `${row}.ended IS DISTINCT FROM 'released'`,",
    check: inHistories(
      "verification/histories/histories.test.ts",
      "are right through the fault proxy",
    ),
  },
  {
    name: "sql-ended-grant-answered-again",
    what: "A repeated acquire is answered with a lease that has ended.",
    file: ACQUIRE,
    find: "WHEN ${isLive(\"s\")} THEN 'acquired'",
    by: "WHEN true THEN 'acquired'",
    check: suite("answers `ended` to a repeated request after a release"),
  },
  {
    name: "sql-clock-set-back",
    what: "Tokens are the clock's, and do not grow when that was set back.",
    file: ACQUIRE,
    find: 'token = greatest(k.token + 1, ${floorOf("k")}, c.token),',
    by: "token = c.token,",
    check: integration("tests/faults/clock-faults.test.ts"),
  },
  {
    name: "sql-no-waiter-is-woken",
    what: "A release notifies no waiter; the next one notices at its next poll.",
    file: LEASES,
    find: "'released' AS status, ${wakeFirst(\"x\")} AS woken",
    by: "'released' AS status, NULL AS woken",
    check: suite("wakes only the head of the queue"),
  },
  {
    name: "sql-dead-waiters-count",
    what: "A resource is kept for waiters who have died.",
    file: "packages/leasehold/src/stores/postgres/wait-queue.ts",
    find: 'WHERE ${SAME_KEY("w", "i")} AND w.expires_at > c.now\n        AND s.lease_id',
    by: 'WHERE ${SAME_KEY("w", "i")}\n        AND s.lease_id',
    check: suite("drops the position of a waiter that stops polling"),
  },
  {
    name: "sql-two-claim-one-task",
    what: "SELECT and then UPDATE without a lock in between: two workers get one task.",
    file: CLAIM,
    find: 'ORDER BY ${IN_ORDER("t")} LIMIT $5::int\n    FOR NO KEY UPDATE OF t SKIP LOCKED`;',
    by: 'ORDER BY ${IN_ORDER("t")} LIMIT $5::int`;',
    check: taskSuite("never gives a task to two of 20 claimers"),
  },
  {
    name: "sql-report-without-a-token",
    what: "Any caller that names a task may report on it, even after another worker's grant.",
    file: TASKS,
    find: "\"t.state = 'running' AND t.lease_id = i.lease_id AND t.token = i.token AND c.now < t.expires_at\"",
    by: "\"t.state = 'running' AND c.now < t.expires_at\"",
    check: taskSuite("refuses a right lease id with a wrong token"),
  },
  {
    name: "sql-report-after-expiry",
    what: "A worker reports after its lease has expired, as long as its task was not reaped.",
    file: TASKS,
    find: "\"t.state = 'running' AND t.lease_id = i.lease_id AND t.token = i.token AND c.now < t.expires_at\"",
    by: "\"t.state = 'running' AND t.lease_id = i.lease_id AND t.token = i.token\"",
    check: taskSuite("refuses a holder after its expiry, even without a new holder"),
  },
  {
    name: "sql-one-attempt-too-many",
    what: "A task that has failed as often as it may is tried once more.",
    file: TASKS,
    find: "h.final OR h.failures + 1 >= h.max_attempts AS dead",
    by: "h.final OR h.failures >= h.max_attempts AS dead",
    check: taskSuite("waits longer after each failure, and is dead at the maxAttempts-th"),
  },
  {
    name: "sql-dedupe-by-key-only",
    what: "Tasks of different kinds are duplicates of each other if their keys are alike.",
    file: TASKS,
    find: "AND rival.kind = ${row}.kind AND rival.dedupe_key",
    by: "AND rival.dedupe_key",
    check: taskSuite("does not start a task over beside another unfinished one"),
  },
];
