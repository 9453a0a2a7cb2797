/** The Lua of leases in Redis. */
import { tested } from "../checks.js";

const SCRIPTS = "packages/leasehold/src/stores/redis/scripts.ts";
const LEAN = "packages/leasehold/src/stores/redis/lean-scripts.ts";
const SAVE = "packages/leasehold/src/stores/redis/lease-save.ts";
const alone = (name) => tested("packages/leasehold/src/stores/redis/lease-engine.test.ts", name);
const LINE = "packages/leasehold/src/stores/redis/wait-queue.ts";
const FORMATS = "packages/leasehold/src/stores/redis/compatibility-scripts.ts";
const formats = (name) => tested("tests/interop/redis-formats.test.ts", name);
const suite = (name) => tested("tests/conformance/redis.test.ts", name);

export const REDIS = [
  {
    name: "lua-delete-by-name",
    what: "DEL without a check of the holder.",
    file: LEAN,
    find: "if f[1] == id and f[3] ~= 'released'",
    by: "if f[1] and f[3] ~= 'released'",
    check: tested("verification/histories/histories-engines.test.ts", "histories on redis"),
  },
  {
    name: "lua-delete-their-lock",
    what: "In the format of another package, a late release deletes the lock of its next holder.",
    file: FORMATS,
    find: "if not r or r.leaseId ~= a then return {'notHeld'} end",
    by: "if not r then return {'notHeld'} end",
    check: tested(
      "tests/interop/redis-interop.test.ts",
      "are not ended by a late release of the former holder",
    ),
  },
  {
    name: "lua-renewal-revives",
    what: "The record outlives its lease, and a renewal does not check the expiry.",
    file: LEAN,
    find: "f[4] == '' and now < last,",
    by: "f[4] == '',",
    check: suite("is refused after expiry, even without a new holder"),
  },
  {
    name: "lua-retry-of-an-ended-grant",
    what: "A late copy of an acquire is granted the resource anew.",
    file: LEAN,
    find: "if isNext and isFree and f[1] ~= id and",
    by: "if isNext and isFree and",
    check: suite("answers `ended` to a repeated request after a release"),
  },
  {
    name: "lua-loses-digits",
    what: "Lua writes a large number as 1.79e+15, so tokens of the same moment become equal.",
    file: SCRIPTS,
    find: "local function text(number) return string.format('%.0f', number) end",
    by: "local function text(number) return tostring(number) end",
    check: suite("stay the same over renewals"),
  },
  {
    name: "lua-clock-set-back",
    what: "Tokens come from the server's clock alone, and shrink with it.",
    file: LEAN,
    find: "f[1] ~= id and token < now and",
    by: "f[1] ~= id and",
    check: tested(
      "packages/leasehold/src/stores/redis/store.test.ts",
      "grow by one while the clock is behind",
    ),
  },
  {
    name: "lua-token-goes-with-the-lease",
    what: "The record expires with its lease, and with it the last token, which the next one must exceed.",
    file: SCRIPTS,
    find: "local at = math.ceil(untilUs / 1000) + ${KEPT_MS}",
    by: "local at = math.ceil(untilUs / 1000)",
    check: tested(
      "packages/leasehold/src/stores/redis/store.test.ts",
      "expire long after their lease",
    ),
  },
  {
    name: "lua-no-waiter-is-woken",
    what: "A release does not notify the head of the queue.",
    file: LEAN,
    find: "if isAwaited then pcall(leaveAndWake, id, channel, f[4]) end",
    by: "",
    check: tested(
      "tests/engines/redis-queue.test.ts",
      "are woken by a holder that would have waited",
    ),
  },
  {
    name: "lua-wakes-the-dead",
    what: "A release wakes a waiter that has died, and no other.",
    file: LINE,
    find: "  removeExpired(waitedUntil)\n  remove(waiter)",
    by: "  remove(waiter)",
    check: tested(
      "tests/engines/redis-queue.test.ts",
      "are woken by a holder that would have waited",
    ),
  },
  {
    name: "lua-format-revoked-again",
    what: "In the format of another package, a repeated acquire returns a revoked grant.",
    file: FORMATS,
    find: "      if r.revoked then return {'ended'} end\n",
    by: "",
    check: formats("answers a repeated acquire"),
  },
  {
    name: "lua-format-renewal-shortens",
    what: "In the format of another package, a renewal with a shorter TTL shortens the grant.",
    file: FORMATS,
    find: "if tonumber(b) > r.left then redis.call",
    by: "if b then redis.call",
    check: formats("renews what its holder has"),
  },
  {
    name: "lua-format-endless-marked",
    what: "In the format of another package, a key without an expiry is revoked at its expiry, so it stays for ever.",
    file: FORMATS,
    find: "    if r.left < 0 then return {'failed', 'the key has no expiry: revoke it at once'} end\n",
    by: "",
    check: formats("revokes at once, at the expiry"),
  },
  {
    name: "lua-part-of-a-waiter",
    what: "A waiter of which only the expiry remains makes every request on its resource fail.",
    file: LINE,
    find: "return string.match(redis.call('ZRANGE', queue, 1, 1)[1] or '', ' (.*)') or ''",
    by: "return string.match(redis.call('ZRANGE', queue, 1, 1)[1], ' (.*)')",
    check: tested("tests/engines/redis-queue.test.ts", "leave nothing that keeps others out"),
  },
  {
    name: "lua-position-without-waiter",
    what: "A waiter that has lost its position cannot be removed, nor can waiters that expired with it.",
    file: LINE,
    find: "  if position then redis.call('ZREMRANGEBYSCORE', queue, position, position) end\n",
    by: "  redis.call('ZREMRANGEBYSCORE', queue, position, position)\n",
    check: tested("tests/engines/redis-queue.test.ts", "leave nothing that keeps others out"),
  },
  {
    name: "redis-wait-queue-expires-under-waiters",
    what: "The key of a wait queue expires while its waiters still poll.",
    file: "packages/leasehold/src/stores/redis/wait-queue.ts",
    find: "  if isNew or endsAt > waitedUntil then\n    redis.call('PEXPIREAT'",
    by: "  if isNew then\n    redis.call('PEXPIREAT'",
    check: suite("keeps the position of a waiter that attempts again"),
  },
  {
    name: "redis-save-without-version",
    what: "A decision is saved although another client has changed the record meanwhile.",
    file: SAVE,
    find: "local isSaved, r = versionOf(f) == c.version, c.record",
    by: "local isSaved, r = true, c.record",
    check: alone("between load and save"),
  },
  {
    name: "redis-save-after-the-expiry",
    what: "A renewal is saved although its grant has expired since it was loaded.",
    file: SAVE,
    find: "now < tonumber(c.changesGrant and f[3] or r.expiresAt)",
    by: "(c.changesGrant or now < tonumber(r.expiresAt))",
    check: alone("extends and ends no grant that expires before it saves"),
  },
  {
    name: "redis-collected-without-a-trace",
    what: "Of a grant that came and was collected between a load and a save, nothing tells that its token was larger.",
    file: SAVE,
    find: "table.concat({f[1] or '', f[2] or '', f[3]",
    by: "f[1] and table.concat({f[1], f[2], f[3]",
    also: [{ find: "f[5] or ''}, ',')", by: "f[5] or ''}, ',') or ',,,,'" }],
    check: alone("gives a larger token than that of a grant that came and was collected"),
  },
  {
    name: "redis-newcomer-is-next",
    what: "A waiter that asks when the resource is free is granted it before those who came earlier.",
    file: LEAN,
    find: "local isNext = ahead == 0`",
    by: "local isNext = true`",
    check: tested(
      "tests/engines/redis-queue.test.ts",
      "are woken by a holder that would have waited",
    ),
  },
  {
    name: "redis-passed-over-stays",
    what: "A waiter that was passed over keeps its position, before those that came in the meantime.",
    file: LINE,
    find: "redis.call('ZREMRANGEBYRANK', queue, 0, 2 * position + 1)",
    by: "redis.call('ZREMRANGEBYRANK', queue, 2 * position, 2 * position + 1)",
    check: suite("wait queue"),
  },
  {
    name: "redis-gives-up-unnoticed",
    what: "Of two waiters that give up at once, the second one is first by the time it leaves, and the one behind it is not woken.",
    file: SAVE,
    find: "if c.wakes or hasPassedOn or not isSaved then",
    by: "if c.wakes or not isSaved then",
    check: tested(
      "tests/engines/redis-queue.test.ts",
      "are woken when those before them give up at once",
    ),
  },
];
