-- Ends each live grant without waiters.
--
-- KEYS   for each request its record
-- ARGV   the lease ids in one text
-- Reply  the server's time; then the numbers of the requests that the general script decides

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local nowText = string.format('%.0f', now)
local function text(number) return string.format('%.0f', number) end
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
return answers
