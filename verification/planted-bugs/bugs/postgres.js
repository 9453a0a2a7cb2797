/** The SQL of leases and tasks. */
import { tested } from "../checks.js";

const LOAD = "packages/leasehold/src/stores/postgres/lease-load.ts";
const SAVE = "packages/leasehold/src/stores/postgres/lease-save.ts";
const WAITING = "packages/leasehold/src/stores/postgres/lease-queue-statements.ts";
const RULES_OF_QUEUE = "packages/leasehold/src/lease/queue.ts";
const STEPS = "packages/leasehold/src/store-kit/lease-steps.ts";
const TASKS = "packages/leasehold/src/stores/postgres/task-statements.ts";
const CLAIM = "packages/leasehold/src/stores/postgres/task-claim-statements.ts";
const LEAN = "packages/leasehold/src/stores/postgres/task-lean-statements.ts";
const LEAN_LEASES = "packages/leasehold/src/stores/postgres/lease-lean-statements.ts";
const leanLeases = (name) =>
  tested("packages/leasehold/src/stores/postgres/lease-lean.test.ts", name);
const LEAN_OUTCOMES = "packages/leasehold/src/stores/postgres/task-lean-outcomes.ts";
const lean = (name) => tested("packages/leasehold/src/stores/postgres/task-lean.test.ts", name);
const QUEUE = "packages/leasehold/src/stores/postgres/wait-queue.ts";
const VIEWS = "packages/leasehold/src/stores/postgres/views.ts";
const byRules = (name) =>
  tested("packages/leasehold/src/stores/postgres/lease-engine.test.ts", name);
const leases = (name) => tested("tests/engines/leases-postgres.test.ts", name);
const queries = (name) => tested("tests/engines/queries-postgres.test.ts", name);
const suite = (name) => tested("tests/conformance/postgres.test.ts", `lease store ... ${name}`);
const taskSuite = (name) =>
  tested("tests/conformance/tasks-conformance.test.ts", `task store ... ${name}`);

export const POSTGRES = [
  {
    name: "now-before-the-lock",
    what: "The time is read before the wait for a lock, so it is stale when it decides.",
    file: LEAN_LEASES,
    find: "SKIP LOCKED\n    ) k\n  )`;\nconst NOW",
    by: "\n    ) k\n  )`;\nconst NOW",
    check: tested("packages/leasehold/src/stores/postgres/store.test.ts", "never waits for locks"),
  },
  {
    name: "sql-renewal-revives",
    what: "The save of a renewal does not check whether the lease has expired since it was loaded.",
    file: SAVE,
    find: " AND (NOT i.changes_grant OR l.expires_at > c.now)",
    by: "",
    check: byRules("extends and ends no grant that expires before it saves"),
  },
  {
    name: "sql-lean-renewal-shortens",
    what: "A renewal with a shorter TTL takes away time that its holder already trusts.",
    file: LEAN_LEASES,
    find: 'expires_at = greatest(k.expires_at, ${afterMs(values.ttlMs("k"))})',
    by: 'expires_at = ${afterMs(values.ttlMs("k"))}',
    check: suite("never shortens a grant"),
  },
  {
    name: "sql-release-by-name",
    what: "DELETE FROM locks WHERE name = ...: a late release frees the successor's lock.",
    file: WAITING,
    find: 'AND l.lease_id = i.asked_id AND ${excludes("l")}\n',
    by: 'AND ${excludes("l")}\n',
    check: tested("verification/histories/histories.test.ts", "are right through the fault proxy"),
  },
  {
    name: "sql-clock-set-back",
    what: "Tokens come from the clock alone, and do not grow if it was set back.",
    file: WAITING,
    find: "token = greatest(k.token + 1, c.token, (",
    by: "token = greatest(c.token, (",
    check: leanLeases("give tokens above the last one"),
  },
  {
    name: "sql-lean-clock-set-back",
    what: "The same, for a free resource without waiters.",
    file: LEAN_LEASES,
    find: "token = greatest(k.token + 1, ${asks.leastToken}),",
    by: "token = ${asks.leastToken},",
    check: leanLeases("give tokens above the last one"),
  },
  {
    name: "sql-lean-waiter-passed-over",
    what: "A free resource goes to the first request, although others wait.",
    file: LEAN_LEASES,
    find: 'AND NOT ${hasWaiter("l", asks.namespace("l"))} AS is_free',
    by: "AS is_free",
    check: leanLeases("leave what is held, lost or waited for"),
  },
  {
    name: "sql-lean-release-wakes-no-waiter",
    what: "A release notifies no waiter.",
    file: WAITING,
    find: 'CASE WHEN c.is_awaited THEN ${wakeFirst("l")} END AS woken',
    by: "NULL::text AS woken",
    check: suite("wakes only the head of the queue"),
  },
  {
    name: "sql-lean-renewal-revives",
    what: "A renewal does not check whether the lease has expired.",
    file: LEAN_LEASES,
    find: '${locked(values, isLive("l"), asked)},',
    by: '${locked(values, "l.ended IS NULL", asked)},',
    check: suite("is refused after expiry, even without a new holder"),
  },
  {
    name: "sql-no-waiter-is-woken",
    what: "A revocation notifies no waiter; the next one notices at its next poll.",
    file: SAVE,
    find: 'CASE WHEN s.wakes THEN ${wakeFirst("s", NOT_LEAVING)} END AS woken',
    by: "NULL AS woken",
    check: leases("wakes the first living waiter"),
  },
  {
    name: "sql-dead-waiters-count",
    what: "A resource is reserved for waiters that have died.",
    file: LOAD,
    find: '${SAME_KEY("w", "i")} AND w.expires_at > c.now\n) p',
    by: '${SAME_KEY("w", "i")}\n) p',
    check: suite("drops the position of a waiter that stops polling"),
  },
  {
    name: "sql-two-claim-one-task",
    what: "SELECT and then UPDATE without a lock in between: two workers get the same task.",
    file: CLAIM,
    find: 'ORDER BY ${IN_ORDER("t")} LIMIT $5::int\n    FOR NO KEY UPDATE OF t SKIP LOCKED`;',
    by: 'ORDER BY ${IN_ORDER("t")} LIMIT $5::int`;',
    check: taskSuite("never gives a task to two of 20 claimers"),
  },
  {
    name: "sql-lean-claim-of-too-much",
    what: "The lean claim takes as many tasks as its limit allows, whatever the size of their data.",
    file: LEAN,
    find: " WHERE (SELECT sum(b.bytes) FROM picked b) <= ${CLAIMED_BYTES}",
    by: "",
    check: lean("ends before the task with which its data would be too much"),
  },
  {
    name: "sql-lean-claim-finds-nothing-again",
    what: "A repeated claim whose answer was lost returns no task, instead of those that it took.",
    file: LEAN_OUTCOMES,
    find: "if (!first || first.undecided) return null;",
    by: "if (!first) return null;",
    check: lean("returns its own tasks when it is repeated, and takes no others"),
  },
  {
    name: "sql-lean-completion-in-the-first-namespace",
    what: "All completions of a batch are applied in the namespace of the first one.",
    file: LEAN_OUTCOMES,
    find: "if (request.namespace !== namespace || !isTaskId(id)) return null;",
    by: "if (!isTaskId(id)) return null;",
    check: lean("of several namespaces completes the tasks of each"),
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
    what: "A worker may report after its lease has expired, until its task has been reaped.",
    file: TASKS,
    find: "\"t.state = 'running' AND t.lease_id = i.lease_id AND t.token = i.token AND c.now < t.expires_at\"",
    by: "\"t.state = 'running' AND t.lease_id = i.lease_id AND t.token = i.token\"",
    check: taskSuite("refuses a holder after its expiry, even without a new holder"),
  },
  {
    name: "sql-one-attempt-too-many",
    what: "A task is tried once more after its last allowed failure.",
    file: TASKS,
    find: "h.final OR h.failures + 1 >= h.max_attempts AS dead",
    by: "h.final OR h.failures >= h.max_attempts AS dead",
    check: taskSuite("waits longer after each failure, and is dead at the maxAttempts-th"),
  },
  {
    name: "sql-dedupe-by-key-only",
    what: "Tasks of different kinds with the same key count as duplicates of each other.",
    file: TASKS,
    find: "AND rival.kind = ${row}.kind AND rival.dedupe_key",
    by: "AND rival.dedupe_key",
    check: taskSuite("does not start a task over beside another unfinished one"),
  },
  {
    name: "sql-waits-unasked",
    what: "If one request of a batch waits, all refused requests of the batch join the wait queue.",
    file: WAITING,
    find: "WHERE i.queue_ms > 0 AND l.lease_id <> i.asked_id",
    by: "WHERE l.lease_id <> i.asked_id",
    check: leases("beside one that waits"),
  },
  {
    name: "sql-paused-for-its-holder",
    what: "A pause refuses the repeated acquire of the holder.",
    file: RULES_OF_QUEUE,
    find: "if (paused && !isRepeated) {",
    by: "if (paused) {",
    check: leases("held by the caller, and paused since"),
  },
  {
    name: "sql-expired-position",
    what: "A waiter that has stopped polling keeps its position.",
    file: LOAD,
    find: "WHERE p.places IS NOT NULL AND w.expires_at > c.now",
    by: "WHERE p.places IS NOT NULL",
    check: leases("as the caller's position between them has expired"),
  },
  {
    name: "sql-old-place",
    what: "A waiter that has expired and asks again gets its old place back, before those that have waited.",
    file: QUEUE,
    find: "place = CASE WHEN w.expires_at > (SELECT c.now FROM clock c) THEN w.place ELSE excluded.place END",
    by: "place = w.place",
    check: suite("puts a waiter that has expired behind the others"),
  },
  {
    name: "sql-held-and-passed-on",
    what: "A waiter that gives up wakes the next one although the lease is held.",
    file: STEPS,
    find: "if (isPassedOn && !(before && rules.excludes(before, nowMs))) key.wakes = true;",
    by: "if (isPassedOn) key.wakes = true;",
    check: leases("passes a resource on when the first waiter"),
  },
  {
    name: "sql-dead-waiter-is-woken",
    what: "A revoke wakes a waiter that has died, and no other.",
    file: QUEUE,
    find: "AND w.expires_at > c.now AND ${which}",
    by: "AND ${which}",
    check: leases("wakes the first living waiter"),
  },
  {
    name: "sql-dead-waiters-listed",
    what: "The wait queue that an operator sees contains waiters that have died.",
    file: QUEUE,
    find: "w.resource = $2 AND w.expires_at > clock_timestamp()",
    by: "w.resource = $2",
    check: leases("lists the waiters that live"),
  },
  {
    name: "sql-ended-and-expiring",
    what: "A list of leases that expire soon contains leases that have ended.",
    file: VIEWS,
    find: '($9::float8 IS NULL OR (${isLive("l")} AND ',
    by: "($9::float8 IS NULL OR (",
    check: leases("lists by what is left"),
  },
  {
    name: "sql-released-in-the-future",
    what: "After the clock was set back, a released resource stays reserved until the recorded time of its release.",
    file: RULES_OF_QUEUE,
    find: "if (!record || nowMs < record.expiresAtMs) return 0;",
    by: "if (!record) return 0;",
    check: leases("as the clock was set back"),
  },
  {
    name: "sql-claim-of-any-kind",
    what: "A worker is given tasks of kinds that it has no handler for.",
    file: CLAIM,
    find: "AND ($6::text[] IS NULL OR t.kind = ANY ($6::text[]))",
    by: "AND ($6::text[] IS NULL OR t.kind <> '')",
    check: queries("takes the due tasks of its kinds"),
  },
  {
    name: "sql-repeated-claim-of-lost-tasks",
    what: "A repeated claim returns tasks whose lease has expired.",
    file: CLAIM,
    find: "      AND c.now < t.expires_at\n",
    by: "",
    check: queries("returns its own tasks when it is repeated"),
  },
  {
    name: "sql-ended-keys-count",
    what: "Expired keys count as valid when the server checks whether there are any.",
    file: "packages/leasehold/src/stores/postgres/control-api-keys.ts",
    find: 'SELECT EXISTS (SELECT FROM leasehold.api_key k WHERE ${good("k")}) AS any',
    by: "SELECT EXISTS (SELECT FROM leasehold.api_key k) AS any",
    check: queries("there are API keys while one has not ended"),
  },
  {
    name: "sql-endless-grants-kept",
    what: "Ended grants without an expiry stay in the history for ever.",
    file: "packages/leasehold/src/stores/postgres/control-history.ts",
    find: "  WHERE coalesce(h.expires_at, h.recorded_at) <=",
    by: "  WHERE h.expires_at <=",
    check: queries("grants of the history are collected"),
  },
  {
    name: "postgres-token-floor-falls",
    what: "A later collection lowers the floor of the tokens.",
    file: "packages/leasehold/src/stores/postgres/lease-collect.ts",
    find: "SET token = greatest(f.token, excluded.token)",
    by: "SET token = excluded.token",
    check: tested("packages/leasehold/src/stores/postgres/store.test.ts", "never lowers the floor"),
  },
];
