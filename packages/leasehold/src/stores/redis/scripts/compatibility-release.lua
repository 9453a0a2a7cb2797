-- Deletes each lock that the grant holds.
--
-- KEYS   the lock of each request
-- ARGV   the format; for each request its lease id
-- Reply  for each request:
--        {'released'}, {'notHeld'}
--        {'failed', message}                         refused; the other requests are decided

-- includes parts/compatibility-read.lua

local function decide(key, a, b, c)

    local r = read(key)
    if not r or r.leaseId ~= a then return {'notHeld'} end
    redis.call('DEL', key)
    return {'released'}
end

-- includes parts/compatibility-decide-each.lua
