-- Takes each lock whose key is not there.
--
-- KEYS   the lock of each request
-- ARGV   the format; for each request lease id, holder, ttlMs
-- Reply  for each request:
--        {'acquired', left}                          in ms; also for a repeated request
--        {'held', holder, leaseId, left}             left is negative if the key has no expiry
--        {'ended'}                                   the grant was revoked
--        {'failed', message}                         refused; the other requests are decided

-- includes parts/compatibility-read.lua

local function decide(key, a, b, c)

    local r = read(key)
    if r and r.leaseId == a then
      if r.revoked then return {'ended'} end
      return {'acquired', r.left}
    end
    if r then return {'held', r.holder, r.leaseId, r.left} end
    redis.call('SET', key, 'leasehold:' .. a .. ':' .. b, 'PX', c)
    return {'acquired', tonumber(c)}
end

-- includes parts/compatibility-decide-each.lua
