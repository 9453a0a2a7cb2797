-- The time, and records. A record is a hash.

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
