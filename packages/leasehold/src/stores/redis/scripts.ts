/**
 * What the scripts have in common, and those that are not about single requests.
 *
 * A script runs alone on its server, by that server's clock. Times are microseconds since 1970. Lua's default conversion of
 * such numbers to text loses digits, hence `%.0f`. A reply starts with the server's time. Numbers in a reply are 64-bit
 * integers, and ioredis misreads those near 2^53: so a token is a text, or its distance from the time.
 *
 * A script writes before it deletes: if the memory is full, the server rejects the first write and thereby the whole script.
 *
 * The lease id is in the field `grantId`: earlier versions have their grant ids there, and so notice that it has changed.
 *
 * A record expires 8 to 9 days after its lease: a day later than collectors delete it. It also stays
 * until its token is that far behind the clock. Any later grant then has a larger token by the clock alone.
 */
import { WAIT_QUEUE } from "./wait-queue.js";

const KEPT_MS = 9 * 24 * 3_600_000;
/** A key's expiry is moved only when its grant reaches another day, so not by every grant and renewal. */
export const DAY_US = 24 * 3_600_000_000;

export const COMMON = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local function text(number) return string.format('%.0f', number) end
local nowText = text(now)
-- Those of the current request.
local key, queue`;

/** Keeps a record, and its name in its index, which lives as long as the records of its resources. */
export const KEEP = `
local indexes = tonumber(ARGV[1])
local function indexAndResource()
  for i = 1, indexes do
    local start = KEYS[i] .. ':'
    if string.sub(key, 1, #start) == start then return KEYS[i], string.sub(key, #start + 1) end
  end
end
-- Lists the current key. @returns its index
local function listed()
  local index, resource = indexAndResource()
  redis.call('ZADD', index, 0, resource)
  return index
end
-- A record is kept for this one if it was kept for any time since.
local function dayOf(untilUs) return untilUs - untilUs % ${DAY_US} end
local function keepUntil(untilUs, index)
  local at = math.ceil(untilUs / 1000) + ${KEPT_MS}
  redis.call('PEXPIREAT', key, text(at))
  if redis.call('PTTL', index) < at - math.floor(now / 1000) then
    redis.call('PEXPIREAT', index, text(at))
  end
end`;

/** The current key, as it is loaded: the fields of its record. Their failure is an error in the reply. */
export const LOADED = `redis.pcall('HMGET', key, 'grantId', 'holder', 'token', 'ttlMs', 'grantedAt', 'renewedAt',
    'expiresAt', 'ended', 'metadata', 'waitedUntil')`;

/**
 * Loads it with its queue, if any client waits: how many, the holder of the first one, and of each of the lease ids that waits
 * itself, how many are before it, and its expiry.
 */
export const LOAD_QUEUE = `
local function load(ids)
  local f = ${LOADED}
  if not f[10] or tonumber(f[10]) <= now then return f end
  removeExpired(f[10])
  f[11], f[12] = waiterCount(), firstHolder()
  for id in string.gmatch(ids, '[^,]+') do
    local rank, expiresAt = redis.call('ZRANK', queue, id), redis.call('ZSCORE', queue, '@' .. id)
    if rank and expiresAt then
      f[#f + 1], f[#f + 2], f[#f + 3] = id, rank / 2, expiresAt
    end
  end
  return f
end`;

/** What a call that failed has thrown, as a part of a reply. */
export const FAILURE = `
local function failure(thrown) return {err = type(thrown) == 'table' and thrown.err or tostring(thrown)} end`;

/**
 *   KEYS   each record; or with lease ids, each record and its wait queue
 *   ARGV   none; or for each record the lease ids whose positions are needed, with commas between them
 *   reply  the server's time; then each key as it was loaded, or its failure
 */
export const LOAD = `${COMMON}${FAILURE}${WAIT_QUEUE}${LOAD_QUEUE}
local answers = {now}
for i = 1, #ARGV do
  key, queue = KEYS[2 * i - 1], KEYS[2 * i]
  local ok, loaded = pcall(load, ARGV[i])
  answers[i + 1] = ok and loaded or failure(loaded)
end
for i = 1, #ARGV > 0 and 0 or #KEYS do
  key = KEYS[i]
  answers[i + 1] = ${LOADED}
end
return answers`;

/**
 * Collects ended grants. Keys: an index and some of its records. Arguments: the minimum age of the end
 * in microseconds, then the names of the records. Deletes those records, and the names of records that
 * expired. Returns the number of deleted records. A token ahead of the clock is kept, because no other
 * source would exceed it. Of a deleted record the token stays for a day: a save that has found no record before
 * notices that there was one.
 */
export const COLLECT = `${COMMON}
local before = now - ARGV[1]
local deleted = 0
for i = 2, #KEYS do
  local f = redis.call('HMGET', KEYS[i], 'grantId', 'token', 'expiresAt', 'ended')
  local isThere = f[1]
  if isThere then
    local token, expiresAt = tonumber(f[2]), tonumber(f[3])
    if (f[4] == 'released' or now >= expiresAt) and expiresAt < before and token < now then
      redis.call('HDEL', KEYS[i], 'grantId', 'holder', 'ttlMs', 'grantedAt', 'renewedAt', 'expiresAt', 'ended', 'metadata',
        'waitedUntil')
      redis.call('PEXPIREAT', KEYS[i], text(math.ceil((now + ${DAY_US}) / 1000)))
      deleted = deleted + 1
      isThere = false
    end
  end
  if not isThere then redis.call('ZREM', KEYS[1], ARGV[i]) end
end
return deleted`;

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
