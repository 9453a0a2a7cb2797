-- Ends the grant of each resource for an operator: at once, or at its expiry without renewals until then.
--
-- KEYS   the indexes that the batch touches; for each request its record and its wait queue
-- ARGV   the number of indexes, the number of lists, the length of a list
--        each list and the number of its requests: the expected token or '', 'now' or 'atExpiry', the channel of notifications
--        for each request ''
-- Reply  the server's time; then for each request:
--        {'revoked', token, left}                    free after `left`
--        {'notHeld'}, {'otherToken'}
--        {'failed', message}                         refused; the other requests are decided
--        Times are microseconds since 1970.

-- includes parts/common.lua

-- includes parts/record.lua

-- includes parts/index.lua
-- includes parts/keep.lua

-- includes parts/wait-queue.lua

local keysEach = 2
local function decide(id, c)

  local r = read(key)
  if not r or not excludes(r) then return {'notHeld'} end
  if c[1] ~= '' and tonumber(c[1]) ~= r.token then return {'otherToken'} end
  local freeAt = c[2] == 'now' and now or r.expiresAt
  redis.call('HSET', key, 'ended', 'revoked', 'expiresAt', text(freeAt))
  if c[2] == 'now' then wake(r, c[3]) end
  return {'revoked', text(r.token), text(freeAt - now)}
end

-- includes parts/decide-each.lua
