-- The index of the current request, which lives as long as its records.

local function indexAndResource()
  for i = 1, indexes do
    local start = KEYS[i] .. ':'
    if string.sub(key, 1, #start) == start then return KEYS[i], string.sub(key, #start + 1) end
  end
end
local function keepUntil(untilUs, index)
  local at = math.ceil(untilUs / 1000) + 777600000
  redis.call('PEXPIREAT', key, text(at))
  if redis.call('PTTL', index) < at - math.floor(now / 1000) then
    redis.call('PEXPIREAT', index, text(at))
  end
end
