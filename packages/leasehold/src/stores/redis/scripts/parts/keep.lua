-- How long a record is kept.

local function untilOf(r) return math.max(r.token, r.expiresAt) end
-- Keeps a record until 8 to 9 days after its token and its expiry, as it was kept for its last ones.
local function keep(r, last)
  if last and math.floor(last / 86400000000) >= math.floor(untilOf(r) / 86400000000) then return end
  local index, resource = indexAndResource()
  redis.call('ZADD', index, 0, resource)
  keepUntil(untilOf(r), index)
end
