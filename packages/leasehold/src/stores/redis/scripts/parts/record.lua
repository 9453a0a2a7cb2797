-- The record of the current request: `key`, and `queue` for its wait queue.

local indexes, lists, length = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local key, queue
local function indexAndResource()
  for i = 1, indexes do
    local start = KEYS[i] .. ':'
    if string.sub(key, 1, #start) == start then return KEYS[i], string.sub(key, #start + 1) end
  end
end
local function keep(token, expiresAt)
  local nowMs = math.floor(now / 1000)
  local untilMs = math.ceil(math.max(token, expiresAt) / 1000)
  if redis.call('PTTL', key) >= untilMs - nowMs + 691200000 then return end
  local at = untilMs + 777600000
  local index, resource = indexAndResource()
  redis.call('PEXPIREAT', key, text(at))
  redis.call('ZADD', index, 0, resource)
  if redis.call('PTTL', index) < at - nowMs then redis.call('PEXPIREAT', index, text(at)) end
end
