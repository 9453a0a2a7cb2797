-- Grants each free resource without waiters to its request.
--
-- KEYS   the indexes that the batch touches; for each request its record
-- ARGV   the number of indexes, holder, ttlMs, metadata as JSON, the lease ids in one text
-- Reply  the server's time, which is the token of each grant, in microseconds since 1970; then the numbers of the
--        requests that the general script decides

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local nowText = string.format('%.0f', now)
local function text(number) return string.format('%.0f', number) end
local indexes = tonumber(ARGV[1])
local key

-- includes parts/index.lua
local holder, ttlMs, metadata, leaseIds = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local expiresAt = now + ttlMs * 1000
local expiresText = text(expiresAt)
local day = math.floor(expiresAt / 86400000000)
local answers = {now}
for i = 1, #KEYS - indexes do
  key = KEYS[indexes + i]
  local id = string.sub(leaseIds, 48 * i - 47, 48 * i)
  local f = redis.pcall('HMGET', key, 'grantId', 'token', 'expiresAt', 'ended', 'waitedUntil')
  local token, last = tonumber(f[2] or 0), tonumber(f[3] or 0)
  local index, resource
  if not f[1] or math.floor(math.max(token, last) / 86400000000) < day then
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
return answers
