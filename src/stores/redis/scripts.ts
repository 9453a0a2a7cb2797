/**
 * What is decided, in Lua: lease/rules.ts in the words of Redis. A script runs alone on its server, so
 * each request is decided and written in one step, by the clock of the server that runs it.
 *
 * A script decides a batch: as many keys and as many arguments for each request. One that fails
 * (somebody has put something else under its key) fails alone. Nothing is deleted before something is
 * written: where the memory is full the first write is refused, and with it all.
 *
 * Times are microseconds since 1970. Lua's own conversion of such numbers to text loses digits, hence
 * `%.0f`. Answers are texts, which every client reads alike.
 *
 * A record is kept for 8 or 9 days after its lease: a day longer than collectors leave it, where any run.
 * It is kept until its token lies that far behind the clock, too: whatever is granted after that has a
 * larger token by the clock alone.
 */
import { LINE } from "./line.js";

const KEPT_MS = 9 * 24 * 3_600_000;
/** The expiry of a key is moved this seldom, not by each renewal. */
const MOVED_MS = 24 * 3_600_000;

const COMMON = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function text(number) return string.format('%.0f', number) end
local function read(key)
  local f = redis.call('HMGET', key, 'grantId', 'holder', 'token', 'ttlMs', 'grantedAt', 'renewedAt',
    'expiresAt', 'ended', 'metadata', 'waitedUntil')
  if not f[1] then return nil end
  return {grantId = f[1], holder = f[2], token = tonumber(f[3]), ttlMs = f[4], expiresAt = tonumber(f[7]),
    ended = f[8], waitedUntil = tonumber(f[10] or '0'),
    view = {f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8], f[9]}}
end
local function excludes(r) return r.ended ~= 'released' and now < r.expiresAt end
local function term(r)
  return text(r.token), r.ttlMs, text(r.expiresAt - now), text(r.expiresAt)
end
local function keep(key, index, resource, token, expiresAt)
  local nowMs = math.floor(now / 1000)
  local untilMs = math.ceil(math.max(token, expiresAt) / 1000)
  if redis.call('PTTL', key) >= untilMs - nowMs + ${KEPT_MS - MOVED_MS} then return end
  local at = untilMs + ${KEPT_MS}
  redis.call('PEXPIREAT', key, text(at))
  redis.call('ZADD', index, 0, resource)
  if redis.call('PTTL', index) < at - nowMs then redis.call('PEXPIREAT', index, text(at)) end
end
`;

/** Decides request after request, and answers a list for each. */
function batch(decide: string, more = "", keysEach = 2): string {
  return `${COMMON}
local key, index, line, ends, waiters
${more}
local function decide(a, b, c, d, e, f)
${decide}
end
local width = #ARGV / (#KEYS / ${keysEach})
local answers = {}
for i = 0, #KEYS / ${keysEach} - 1 do
  key, index, line, ends, waiters = unpack(KEYS, ${keysEach} * i + 1, ${keysEach} * (i + 1))
  local ok, answer = pcall(decide, unpack(ARGV, i * width + 1, (i + 1) * width))
  if not ok then
    answer = {'failed', type(answer) == 'table' and answer.err or tostring(answer)}
  end
  answers[i + 1] = answer
end
return answers`;
}

/** Of what others may wait for: its keys go on with those of the line. */
function batchInLine(decide: string): string {
  return batch(decide, LINE, 5);
}

/** resource, grantId, holder, ttlMs, queueMs, metadata as JSON */
const ACQUIRE = batchInLine(`
  local r = read(key)
  if r and r.grantId == b then
    if r.ended ~= '' or now >= r.expiresAt then return {'ended'} end
    return {'acquired', term(r)}
  end
  local isHeld, waits = r and excludes(r), tonumber(e) > 0
  if isHeld and not waits then return {'held', r.holder, r.grantId, text(r.expiresAt - now), ''} end
  local ahead, place = 0, nil
  if isHeld or r and isWaitedFor(r) then
    forgetDead(r)
    ahead, place = aheadOf(b)
    local left = r.expiresAt + reservedFor(ahead) - now
    -- A clock that was set back reserves nothing.
    if isHeld or now >= r.expiresAt and left > 0 then
      local holder, grantId = r.holder, r.grantId
      if not isHeld then holder, grantId = redis.call('HGET', waiters, first()) or '', '' end
      if waits then leaveTicket(r, b, not place, c, e) end
      return {'held', holder, grantId, text(left), text(ahead)}
    end
  end
  local g = {token = math.max(r and r.token + 1 or 0, now), ttlMs = d, expiresAt = now + d * 1000}
  redis.call('HSET', key, 'grantId', b, 'holder', c, 'token', text(g.token), 'ttlMs', d,
    'grantedAt', text(now), 'renewedAt', '', 'expiresAt', text(g.expiresAt), 'ended', '', 'metadata', f)
  keep(key, index, a, g.token, g.expiresAt)
  if place then leaveLine(place) end
  local token, ttlMs, left, expiresAt = term(g)
  return {'acquired', token, ttlMs, left, expiresAt, r and r.view or {}, text(now)}`);

/** resource, grantId, ttlMs */
const RENEW = batch(`
  local r = read(key)
  if not r then return {'lost', 'gone'} end
  if r.grantId ~= b then return {'lost', 'taken'} end
  if r.ended == 'revoked' then return {'lost', 'revoked'} end
  if r.ended == 'released' then return {'lost', 'gone'} end
  if now >= r.expiresAt then return {'lost', 'expired'} end
  r.ttlMs, r.expiresAt = c, math.max(r.expiresAt, now + c * 1000)
  redis.call('HSET', key, 'ttlMs', c, 'renewedAt', text(now), 'expiresAt', text(r.expiresAt))
  keep(key, index, a, r.token, r.expiresAt)
  return {'renewed', term(r)}`);

/** resource, grantId, channel */
const RELEASE = batchInLine(`
  local r = read(key)
  if not r then return {'notHeld'} end
  if r.grantId ~= b then
    withdraw(r, b, c, a, not excludes(r))
    return {'notHeld'}
  end
  if r.ended == 'released' then return {'released'} end
  if not excludes(r) then return {'notHeld'} end
  redis.call('HSET', key, 'ended', 'released', 'expiresAt', text(now))
  wake(r, c, a)
  return {'released'}`);

/** resource, expected token or "", "now" or "atExpiry", channel */
const REVOKE = batchInLine(`
  local r = read(key)
  if not r or not excludes(r) then return {'notHeld'} end
  if b ~= '' and tonumber(b) ~= r.token then return {'otherToken'} end
  local freeAt = c == 'now' and now or r.expiresAt
  redis.call('HSET', key, 'ended', 'revoked', 'expiresAt', text(freeAt))
  if c == 'now' then wake(r, d, a) end
  return {'revoked', text(r.token), text(freeAt - now)}`);

/** No arguments. */
const VIEW = batch(`
  local r = read(key)
  return {'view', r and r.view or {}, text(now)}`);

/**
 * Keys: an index and records of it. Arguments: how long ago a grant must have ended, in microseconds,
 * then the names of the records. Deletes those, and names whose record has gone by itself; how many
 * records it has deleted. A token ahead of the clock is kept: nothing else would exceed it.
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
  ...{ acquire: ACQUIRE, renew: RENEW, release: RELEASE, revoke: REVOKE },
  ...{ view: VIEW, collect: COLLECT },
};

/**
 * Key and channel of nobody's: whether this user may do what the others do, and this server takes
 * writes. It leaves nothing behind.
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
