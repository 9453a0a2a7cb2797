-- Extends each grant that is live; never shortens one.
--
-- KEYS   the indexes that the batch touches; for each request its record
-- ARGV   the number of indexes, the number of lists, the length of a list
--        each list and the number of its requests: ttlMs
--        for each request its lease id
-- Reply  the server's time; then for each request:
--        {'renewed', token, ttlMs, left, expiresAt}
--        {'lost', reason}                            'gone', 'taken', 'revoked' or 'expired'
--        {'failed', message}                         refused; the other requests are decided
--        Times are microseconds since 1970.

-- includes parts/common.lua

-- includes parts/record.lua

-- includes parts/index.lua
-- includes parts/keep.lua

local keysEach = 1
local function decide(id, c)

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
  return {'renewed', term(r, c[1])}
end

-- includes parts/decide-each.lua
