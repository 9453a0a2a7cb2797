/**
 * The same mistake in several lines that must agree: a rule that two statements state, both clocks of a holder, the
 * check before a change and the change. A test that compares the one with the other finds nothing.
 */
import { simulated, tested } from "../checks.js";

const STORES = "packages/leasehold/src/stores";
const RULES = "packages/leasehold/src/lease/rules.ts";
const LEAN = `${STORES}/postgres/lease-lean-statements.ts`;
const WAITING = `${STORES}/postgres/lease-queue-statements.ts`;
const ONCE = `${STORES}/postgres/once-statements.ts`;
const REDIS = `${STORES}/redis/lean-scripts.ts`;
const ETCD = `${STORES}/etcd/lease-load.ts`;
const KEYS = "packages/leasehold/src/tasks/keys.ts";

const onMemory = (name) => tested("tests/conformance/memory.test.ts", name);
const onPostgres = (name) => tested("tests/conformance/postgres.test.ts", name);
const onRedis = (name) => tested("tests/conformance/redis.test.ts", name);
const onEtcd = (name) => tested("tests/conformance/etcd.test.ts", name);
const onceOnPostgres = (name) =>
  tested("tests/conformance/once-conformance.test.ts", `records of once ... ${name}`);

const WRONG_SECRET = "refuses the grant id of a live grant with a wrong secret";
const IN_ORDER = "serves waiters in the order of their arrival";

export const PAIRS = [
  {
    name: "pair-expiry-inclusive",
    what: "At the very time of its expiry a grant is still live, and still excludes others.",
    file: RULES,
    find: "return record.ended === null && nowMs < record.expiresAtMs;",
    by: "return record.ended === null && nowMs <= record.expiresAtMs;",
    also: [
      {
        find: 'return record.ended !== "released" && nowMs < record.expiresAtMs;',
        by: 'return record.ended !== "released" && nowMs <= record.expiresAtMs;',
      },
    ],
    check: tested("packages/leasehold/src/lease/rules.test.ts"),
  },
  {
    name: "pair-secret-ignored-by-rules",
    what: "Renewals and releases compare the public half of the lease id alone.",
    file: RULES,
    find: 'if (record.leaseId !== request.leaseId) return lost("taken");',
    by: 'if (grantIdOf(record.leaseId) !== grantIdOf(request.leaseId)) return lost("taken");',
    also: [
      {
        find: 'if (record?.leaseId !== request.leaseId) return { record, outcome: { status: "notHeld" } };',
        by: 'if (!record || grantIdOf(record.leaseId) !== grantIdOf(request.leaseId)) return { record, outcome: { status: "notHeld" } };',
      },
    ],
    check: onMemory(WRONG_SECRET),
  },
  {
    name: "pair-secret-ignored-by-postgres",
    what: "The lean statements of PostgreSQL compare the public half of the lease id alone.",
    file: LEAN,
    find: "WHERE ${isRowOf} AND l.lease_id = i.asked_id AND ${condition}",
    by: "WHERE ${isRowOf} AND left(l.lease_id, 16) = left(i.asked_id, 16) AND ${condition}",
    also: [
      {
        file: WAITING,
        find: 'AND l.lease_id = i.asked_id AND ${excludes("l")}\n',
        by: 'AND left(l.lease_id, 16) = left(i.asked_id, 16) AND ${excludes("l")}\n',
      },
    ],
    check: onPostgres(WRONG_SECRET),
  },
  {
    name: "pair-secret-ignored-by-redis",
    what: "Renewals and releases on Redis compare the public half of the lease id alone.",
    file: REDIS,
    find: "f[1] == id and f[4] == ''",
    by: "string.sub(f[1] or '', 1, 16) == string.sub(id, 1, 16) and f[4] == ''",
    also: [
      {
        find: "if f[1] == id and f[3]",
        by: "if string.sub(f[1] or '', 1, 16) == string.sub(id, 1, 16) and f[3]",
      },
    ],
    check: onRedis(WRONG_SECRET),
  },
  {
    name: "pair-secret-ignored-by-etcd",
    what: "Renewals and releases on etcd compare the public half of the lease id alone.",
    file: ETCD,
    find: "record: recordOf(version, terms),",
    by: "record: ((one) => one && { ...one, leaseId: key.leaseIds.find((id) => id.slice(0, 16) === one.leaseId.slice(0, 16)) ?? one.leaseId })(recordOf(version, terms)),",
    check: onEtcd(WRONG_SECRET),
  },
  {
    name: "pair-lean-statements-overtake",
    what: "The lean statements of PostgreSQL do not look for waiters: a release wakes none, and a newcomer overtakes them.",
    file: LEAN,
    find: ' AND NOT ${hasWaiter("l", asks.namespace("l"))} AS is_free',
    by: " AS is_free",
    also: [
      {
        file: WAITING,
        find: 'CASE WHEN c.is_awaited THEN ${wakeFirst("l")} END AS woken',
        by: "NULL::text AS woken",
      },
    ],
    check: onPostgres(IN_ORDER),
  },
  {
    name: "pair-lean-scripts-overtake",
    what: "Of callers that do not wait, no script of Redis looks for waiters: a release wakes none, and a newcomer overtakes them.",
    file: REDIS,
    find: "local isNext = not isAwaited",
    by: "local isNext = true",
    also: [
      {
        find: '${hasQueue ? "" : " and not isAwaited"}',
        by: "",
      },
    ],
    check: onRedis(IN_ORDER),
  },
  {
    name: "pair-renewal-shortens",
    what: "A renewal with a shorter TTL shortens the grant, in the lean statement of PostgreSQL and by the rules.",
    file: LEAN,
    find: 'expires_at = greatest(k.expires_at, ${afterMs(values.ttlMs("k"))})',
    by: 'expires_at = ${afterMs(values.ttlMs("k"))}',
    also: [
      {
        file: RULES,
        find: "expiresAtMs: Math.max(record.expiresAtMs, nowMs + request.ttlMs),",
        by: "expiresAtMs: nowMs + request.ttlMs,",
      },
    ],
    check: onPostgres("never shortens a grant"),
  },
  {
    name: "pair-renewal-after-revoke",
    what: "A revoked grant that still excludes others is renewed, by the lean statement and by the rules.",
    file: LEAN,
    find: '${locked(values, isLive("l"), asked)},',
    by: '${locked(values, excludes("l"), asked)},',
    also: [
      {
        file: RULES,
        find: 'if (record.ended === "revoked") return lost("revoked");',
        by: "",
      },
    ],
    check: onPostgres("is refused after a revoke"),
  },
  {
    name: "pair-granted-before-the-expiry",
    what: "Redis grants a resource anew a second before the expiry of its grant.",
    file: REDIS,
    find: "f[4] == 'released' or now >= last,",
    by: "f[4] == 'released' or now >= last - 1000000,",
    check: onRedis("grants anew no earlier than the expiry"),
  },
  {
    name: "pair-trust-without-margin",
    what: "A holder trusts the whole remaining time, without margin and drift.",
    file: "packages/leasehold/src/lease/trust.ts",
    find: "untilMonotonicMs: sent.monotonicMs + durationMs,",
    by: "untilMonotonicMs: sent.monotonicMs + Math.max(durationMs, remainingMs),",
    check: simulated("leases"),
  },
  {
    name: "pair-retrying-head-overtaken",
    what: "Tasks overtake the head of their key while it waits for its retry, and while it waits for the reaper.",
    file: KEYS,
    find: "if (record.seq > stuck) return null;",
    by: "if (record.seq > stuck && nowMs < 0) return null;",
    also: [
      {
        find: "if (record.last) return null;",
        by: "if (record.last) continue;",
      },
    ],
    check: simulated("keys"),
  },
  {
    name: "pair-success-kept-too-long",
    what: "A success of once is read as kept for an hour too long, and not replaced for as long.",
    file: ONCE,
    find: "${row}.keep_until > c.now)`;",
    by: "${row}.keep_until > c.now - interval '1 hour')`;",
    also: [
      {
        find: "WHERE o.keep_until <= excluded.done_at",
        by: "WHERE o.keep_until <= excluded.done_at - interval '1 hour'",
      },
    ],
    check: onceOnPostgres("forgets a success after keepMs"),
  },
  {
    name: "pair-one-failure-more",
    what: "Work of once is failed only after one attempt more, at its first failure and at each further one.",
    file: ONCE,
    find: "SELECT $1, $5, 1, coalesce(1 >= $7::int, false)",
    by: "SELECT $1, $5, 1, coalesce(1 > $7::int, false)",
    also: [
      {
        find: "is_last = coalesce(f.failures + 1 >= $7::int, false)",
        by: "is_last = coalesce(f.failures + 1 > $7::int, false)",
      },
    ],
    check: onceOnPostgres("is failed after maxAttempts"),
  },
  {
    name: "pair-lean-release-of-an-expired-grant",
    what: "A release finds an expired grant on Redis.",
    file: REDIS,
    find: " and now < tonumber(f[2])${",
    by: "${",
    check: onRedis("after expiry finds nothing to release"),
  },
  {
    name: "pair-shorter-renewal-on-redis",
    what: "A renewal with a shorter TTL shortens the grant on Redis, and so does its record.",
    file: REDIS,
    find: "    if last > untilUs then untilUs, what, answer = last, 'longer', {f[2], f[3]} end\n",
    by: "",
    check: onRedis("never shortens a grant"),
  },
];
