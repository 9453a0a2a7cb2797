/**
 * The scripts for the common case: acquires with the same values of resources that are free, and releases of held ones,
 * without waiters. Each lists the requests that it leaves undecided by their numbers, and the general script (scripts.ts)
 * decides those:
 *
 *   batch ─▶ lean script ─▶ granted, released
 *              └─ the rest ─▶ general script ─▶ held, ended, replaced, waits, ...
 *
 * They follow the rules of the general scripts and write the same records. They read and write only the record, so they
 * need no key of a wait queue. What they leave out, and why that is safe:
 *
 * - A record with a waiter is left to the general script: they never wake, pass over or add one.
 * - Each grant has the token `now`. A record whose token is not smaller is left to the general script.
 * - So is a resource whose record or index cannot be used, because another client stored another type under its key.
 *   Nothing else fails for one request alone, and an error reply means that the script changed nothing.
 *
 * An argument costs client and server nearly as much as its request. So the lease ids are one text, and the answer to a
 * batch without undecided requests is the time.
 */
import { DAY_US, INDEX } from "./scripts.js";

const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local nowText = string.format('%.0f', now)
local function text(number) return string.format('%.0f', number) end`;

/**
 *   KEYS   the indexes; then for each request its record
 *   ARGV   the number of indexes, holder, ttlMs, metadata as JSON, the lease ids in one text
 */
const ACQUIRE_FREE = `${NOW}
local indexes = tonumber(ARGV[1])
local key
${INDEX}
local holder, ttlMs, metadata, leaseIds = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local expiresAt = now + ttlMs * 1000
local expiresText = text(expiresAt)
local day = math.floor(expiresAt / ${DAY_US})
local answers = {now}
for i = 1, #KEYS - indexes do
  key = KEYS[indexes + i]
  local id = string.sub(leaseIds, 48 * i - 47, 48 * i)
  local f = redis.pcall('HMGET', key, 'grantId', 'token', 'expiresAt', 'ended', 'waitedUntil')
  local token, last = tonumber(f[2] or 0), tonumber(f[3] or 0)
  local index, resource
  if not f[1] or math.floor(math.max(token, last) / ${DAY_US}) < day then
    index, resource = indexAndResource()
  end
  if f.err or f[1] == id or token >= now or f[4] ~= 'released' and now < last
    or f[5] and now < tonumber(f[5])
    or index and type(redis.pcall('ZADD', index, 0, resource)) == 'table' then
    answers[#answers + 1] = i
  else
    redis.call('HSET', key, 'grantId', id, 'token', nowText, 'expiresAt', expiresText, 'ended', '',
      'holder', holder, 'ttlMs', ttlMs, 'grantedAt', nowText, 'renewedAt', '', 'metadata', metadata)
    if index then keepUntil(expiresAt, index) end
  end
end
return answers`;

/**
 *   KEYS   for each request its record
 *   ARGV   the lease ids in one text
 */
const RELEASE_HELD = `${NOW}
local leaseIds = ARGV[1]
local answers = {now}
for i = 1, #KEYS do
  local key = KEYS[i]
  local f = redis.pcall('HMGET', key, 'grantId', 'expiresAt', 'ended', 'waitedUntil')
  if f.err or f[1] ~= string.sub(leaseIds, 48 * i - 47, 48 * i) or f[3] == 'released'
    or now >= tonumber(f[2]) or f[4] and now < tonumber(f[4]) then
    answers[#answers + 1] = i
  else
    redis.call('HSET', key, 'ended', 'released', 'expiresAt', nowText)
  end
end
return answers`;

export const LEAN_SCRIPTS = { acquireFree: ACQUIRE_FREE, releaseHeld: RELEASE_HELD };
