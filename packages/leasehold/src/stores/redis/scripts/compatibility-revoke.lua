-- Ends each lock for an operator, also one of another client: deletes it at once, or marks it until it
-- expires.
--
-- KEYS   the lock of each request
-- ARGV   the format; for each request 'now' or 'atExpiry'
-- Reply  for each request:
--        {'revoked', left}                           free after `left` ms
--        {'notHeld'}
--        {'failed', message}                         refused; the other requests are decided

-- includes parts/compatibility-read.lua

local function decide(key, a, b, c)

    local r = read(key)
    if not r then return {'notHeld'} end
    if a == 'now' then
      redis.call('DEL', key)
      return {'revoked', 0}
    end
    if r.left < 0 then return {'failed', 'the key has no expiry: revoke it at once'} end
    local value = 'leasehold-revoked:' .. r.leaseId .. ':' .. r.holder
    redis.call('SET', key, value, 'KEEPTTL')
    return {'revoked', r.left}
end

-- includes parts/compatibility-decide-each.lua
