-- Reads each lock.
--
-- KEYS   the lock of each request
-- ARGV   the format; for each request nothing
-- Reply  for each request:
--        {}                                          no lock
--        {leaseId, holder, 'live' or 'revoked', left}
--        {'failed', message}                         refused; the other requests are decided

-- includes parts/compatibility-read.lua

local function decide(key, a, b, c)

    local r = read(key)
    if not r then return {} end
    return {r.leaseId, r.holder, r.revoked and 'revoked' or 'live', r.left}
end

-- includes parts/compatibility-decide-each.lua
