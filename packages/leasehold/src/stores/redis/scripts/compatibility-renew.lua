-- Extends each lock that the grant holds; never shortens one.
--
-- KEYS   the lock of each request
-- ARGV   the format; for each request lease id, ttlMs
-- Reply  for each request:
--        {'renewed', left}                           in ms
--        {'lost', reason}                            'gone', 'taken' or 'revoked'
--        {'failed', message}                         refused; the other requests are decided

-- includes parts/compatibility-read.lua

local function decide(key, a, b, c)

    local r = read(key)
    if not r then return {'lost', 'gone'} end
    if r.leaseId ~= a then return {'lost', 'taken'} end
    if r.revoked then return {'lost', 'revoked'} end
    if tonumber(b) > r.left then redis.call('PEXPIRE', key, b) end
    return {'renewed', math.max(tonumber(b), r.left)}
end

-- includes parts/compatibility-decide-each.lua
