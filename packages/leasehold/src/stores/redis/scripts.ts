/**
 * The decisions in Lua: core/rules.ts for Redis. This file assembles each script.
 *
 * A script runs alone on its server. So it decides and writes each request in one step, by that
 * server's clock.
 *
 * A script decides a batch: one or two keys and one argument per request. Arguments that several
 * requests share are sent once. A failing request (another client stored another type under its key)
 * fails alone. A script writes before it deletes: if the memory is full, the server rejects the first
 * write and thereby the whole script.
 *
 * Times are microseconds since 1970. Lua's default conversion of such numbers to text loses digits,
 * hence `%.0f`. A reply starts with the server's time. Most requests are answered by a single number,
 * which Redis sends as a 64-bit integer, others by a list of texts. A token is returned as its distance
 * from the time, because ioredis misreads integers near 2^53.
 *
 * The lease id is in the field `grantId`: earlier versions have their grant ids there, and so notice that it has changed.
 *
 * lean-scripts.ts has the scripts for the common case.
 *
 * A record expires 8 to 9 days after its lease: a day later than collectors delete it. It also stays
 * until its token is that far behind the clock. Any later grant then has a larger token by the clock alone.
 */
import { WAIT_QUEUE } from "./wait-queue.js";

const KEPT_MS = 9 * 24 * 3_600_000;
/** A key's expiry is moved only when its grant reaches another day, so not by every grant and renewal. */
export const DAY_US = 24 * 3_600_000_000;

const COMMON = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function text(number) return string.format('%.0f', number) end
local nowText = text(now)
local function read(key)
  local f = redis.call('HMGET', key, 'grantId', 'token', 'expiresAt', 'ended', 'waitedUntil')
  if not f[1] then return nil end
  return {leaseId = f[1], token = tonumber(f[2]), expiresAt = tonumber(f[3]), ended = f[4],
    waitedUntil = tonumber(f[5] or '0')}
end
local function view(key)
  local f = redis.call('HMGET', key, 'grantId', 'holder', 'token', 'ttlMs', 'grantedAt', 'renewedAt',
    'expiresAt', 'ended', 'metadata')
  return f[1] and f or {}
end
local function excludes(r) return r.ended ~= 'released' and now < r.expiresAt end
local function term(r, ttlMs)
  return text(r.token), ttlMs, text(r.expiresAt - now), text(r.expiresAt)
end
`;

/** An index lives as long as the records of its resources. */
export const INDEX = `
local function indexAndResource()
  for i = 1, indexes do
    local start = KEYS[i] .. ':'
    if string.sub(key, 1, #start) == start then return KEYS[i], string.sub(key, #start + 1) end
  end
end
local function keepUntil(untilUs, index)
  local at = math.ceil(untilUs / 1000) + ${KEPT_MS}
  redis.call('PEXPIREAT', key, text(at))
  if redis.call('PTTL', index) < at - math.floor(now / 1000) then
    redis.call('PEXPIREAT', index, text(at))
  end
end`;

/** Reads the record of the current request. */
const RECORD = `
local indexes, lists, length = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local key, queue
`;

const KEEP = `
local function untilOf(r) return math.max(r.token, r.expiresAt) end
-- Keeps a record until 8 to 9 days after its token and its expiry, as it was kept for its last ones.
local function keep(r, last)
  if last and math.floor(last / ${DAY_US}) >= math.floor(untilOf(r) / ${DAY_US}) then return end
  local index, resource = indexAndResource()
  redis.call('ZADD', index, 0, resource)
  keepUntil(untilOf(r), index)
end
`;

/** Calls `decide` for each request. */
const DECIDE_EACH = `
local answers = {now}
local i, ids = 0, 3 + lists * (length + 1)
for list = 1, lists do
  local from = 3 + (list - 1) * (length + 1)
  local c = {unpack(ARGV, from + 1, from + length)}
  for _ = 1, tonumber(ARGV[from + length + 1]) do
    i = i + 1
    key, queue = KEYS[indexes + (i - 1) * keysEach + 1], KEYS[indexes + i * keysEach]
    local ok, answer = pcall(decide, ARGV[ids + i], c)
    if not ok then
      answer = {'failed', type(answer) == 'table' and answer.err or tostring(answer)}
    end
    answers[i + 1] = answer
  end
end
return answers`;

/**
 * Decides the requests one by one.
 *   KEYS   the indexes; then for each request its record (and its wait queue)
 *   ARGV   the number of indexes; the number of shared argument lists, and their length; each list with the
 *          number of requests that it is for; then for each request its lease id, or "" if it has none
 *   reply  the server's time; then for each request its answer, or {'failed', message}: it alone was refused
 */
function batch(decide: string, { more = "", keysEach = 1 } = {}): string {
  return `${COMMON}${RECORD}${INDEX}${KEEP}${more}
local keysEach = ${keysEach}
local function decide(id, c)
${decide}
end
${DECIDE_EACH}`;
}

/** Adds the wait queue to a script. */
function batchWithQueue(decide: string): string {
  return batch(decide, { more: WAIT_QUEUE, keysEach: 2 });
}

/**
 * holder, ttlMs, queueMs, metadata as JSON, whether to return the replaced grant: "1" or "". It answers
 *   an integer                                  granted: the token less the time
 *   {'replaced', token, view}                   granted: the view is of the grant before
 *   {'acquired', token, ttlMs, left, expiresAt} granted before, by the same request
 *   {'held', holder, leaseId, left, ahead}      ahead: waiters before this one. If the resource is free but reserved: the
 *                                               first waiter as holder, and lease id ''
 *   {'ended'}                                   the grant of this lease id has ended
 */
const ACQUIRE = batchWithQueue(`
  local holder, ttlMs, queueMs = c[1], c[2], c[3]
  local r = read(key)
  if r and r.leaseId == id then
    if r.ended ~= '' or now >= r.expiresAt then return {'ended'} end
    return {'acquired', term(r, redis.call('HGET', key, 'ttlMs'))}
  end
  local isHeld, waits = r and excludes(r), queueMs ~= '0'
  if isHeld and not waits then
    return {'held', redis.call('HGET', key, 'holder'), r.leaseId, text(r.expiresAt - now), ''}
  end
  local ahead, position = 0, nil
  if isHeld or r and isWaitedFor(r) then
    removeExpired(r)
    ahead, position = aheadOf(id)
    local left = r.expiresAt + reservedFor(ahead) - now
    -- A clock that was set back reserves nothing.
    if isHeld or now >= r.expiresAt and left > 0 then
      local by, leaseId = '', ''
      if isHeld then by, leaseId = redis.call('HGET', key, 'holder'), r.leaseId else by = firstHolder() end
      if waits then putWaiter(r, id, not position, holder, queueMs) end
      return {'held', by, leaseId, text(left), text(ahead)}
    end
  end
  local before = c[5] ~= '' and r and view(key)
  local token, tokenText = now, nowText
  if r and r.token >= now then
    token = r.token + 1
    tokenText = text(token)
  end
  local expiresAt = now + ttlMs * 1000
  c.expiresAt = c.expiresAt or text(expiresAt)
  redis.call('HSET', key, 'grantId', id, 'token', tokenText, 'expiresAt', c.expiresAt, 'ended', '',
    'holder', holder, 'ttlMs', ttlMs, 'grantedAt', nowText, 'renewedAt', '', 'metadata', c[4])
  keep({token = token, expiresAt = expiresAt}, r and untilOf(r))
  if position then removeServed(position) end
  if before then return {'replaced', tokenText, before} end
  return token - now`);

/** ttlMs */
const RENEW = batch(`
  local r = read(key)
  if not r then return {'lost', 'gone'} end
  if r.leaseId ~= id then return {'lost', 'taken'} end
  if r.ended == 'revoked' then return {'lost', 'revoked'} end
  if r.ended == 'released' then return {'lost', 'gone'} end
  if now >= r.expiresAt then return {'lost', 'expired'} end
  local last = untilOf(r)
  r.expiresAt = math.max(r.expiresAt, now + c[1] * 1000)
  redis.call('HSET', key, 'ttlMs', c[1], 'renewedAt', nowText, 'expiresAt', text(r.expiresAt))
  keep(r, last)
  return {'renewed', term(r, c[1])}`);

/** channel */
const RELEASE = batchWithQueue(`
  local r = read(key)
  if not r then return 0 end
  if r.leaseId ~= id then
    withdraw(r, id, c[1], not excludes(r))
    return 0
  end
  if r.ended == 'released' then return 1 end
  if not excludes(r) then return 0 end
  redis.call('HSET', key, 'ended', 'released', 'expiresAt', nowText)
  wake(r, c[1])
  return 1`);

/** expected token or "", "now" or "atExpiry", channel */
const REVOKE = batchWithQueue(`
  local r = read(key)
  if not r or not excludes(r) then return {'notHeld'} end
  if c[1] ~= '' and tonumber(c[1]) ~= r.token then return {'otherToken'} end
  local freeAt = c[2] == 'now' and now or r.expiresAt
  redis.call('HSET', key, 'ended', 'revoked', 'expiresAt', text(freeAt))
  if c[2] == 'now' then wake(r, c[3]) end
  return {'revoked', text(r.token), text(freeAt - now)}`);

/** No fields. */
const VIEW = batch(`return {'view', view(key)}`);

/**
 * Collects ended grants. Keys: an index and some of its records. Arguments: the minimum age of the end
 * in microseconds, then the names of the records. Deletes those records, and the names of records that
 * expired. Returns the number of deleted records. A token ahead of the clock is kept, because no other
 * source would exceed it.
 */
const COLLECT = `${COMMON}
local before = now - ARGV[1]
local deleted = 0
for i = 2, #KEYS do
  local r = read(KEYS[i])
  if r and not excludes(r) and r.expiresAt < before and r.token < now then
    redis.call('DEL', KEYS[i])
    deleted = deleted + 1
    r = nil
  end
  if not r then redis.call('ZREM', KEYS[1], ARGV[i]) end
end
return deleted`;

export const SCRIPTS = {
  acquire: ACQUIRE,
  renew: RENEW,
  release: RELEASE,
  revoke: REVOKE,
  view: VIEW,
  collect: COLLECT,
};

/**
 * Checks, on a key and a channel that no resource uses, whether the user has all permissions and the
 * server accepts writes. It leaves nothing behind.
 */
export const PROBE = `
redis.call('TIME')
redis.call('HSET', KEYS[1], 'probe', '1')
redis.call('HMGET', KEYS[1], 'probe')
redis.call('PEXPIREAT', KEYS[1], '9999999999999')
redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
redis.call('ZADD', KEYS[1], 0, 'probe')
redis.call('ZREM', KEYS[1], 'probe')
redis.call('PUBLISH', ARGV[1], '')
return 'ok'`;
