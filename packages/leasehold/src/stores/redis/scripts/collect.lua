-- Deletes the records of an index whose grants ended long ago, and names whose record has expired by
-- itself. A token ahead of the clock is kept: no later token would exceed it.
--
-- KEYS   an index; the records of some of its names
-- ARGV   how long ago a grant must have ended, in microseconds; the names, in the order of the records
-- Reply  the number of records deleted

-- includes parts/common.lua

local before = now - ARGV[1]
local deleted = 0
for i = 2, #KEYS do
  local r = read(KEYS[i])
  if r and not excludes(r) and r.expiresAt < before and r.token < now then
    redis.call('DEL', KEYS[i])
    deleted = deleted + 1
    r = nil
  end
  if not r then redis.call('ZREM', KEYS[1], ARGV[i]) end
end
return deleted
