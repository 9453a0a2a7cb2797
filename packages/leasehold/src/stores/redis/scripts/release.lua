-- Ends each grant and notifies the first waiter. A lease id that only waits leaves the wait queue.
--
-- KEYS   the indexes that the batch touches; for each request its record and its wait queue
-- ARGV   the number of indexes, the number of lists, the length of a list
--        each list and the number of its requests: the channel of notifications
--        for each request its lease id
-- Reply  the server's time; then for each request:
--        1                                           released, now or before
--        0                                           not held
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
  if not r then return 0 end
  if r.leaseId ~= id then
    withdraw(r, id, c[1], not excludes(r))
    return 0
  end
  if r.ended == 'released' then return 1 end
  if not excludes(r) then return 0 end
  redis.call('HSET', key, 'ended', 'released', 'expiresAt', nowText)
  wake(r, c[1])
  return 1
end

-- includes parts/decide-each.lua
