-- Runs a write unless a newer holder has written. The function `write` has the caller's script, here one
-- that sets a key. The token is kept before the write: a script that fails half-way is not undone.
--
-- KEYS   the guard of the resource; the keys of the caller's script
-- ARGV   the token; the arguments of the caller's script
-- Reply  {1, reply of the caller's script}, or {0, last token} with nothing written

local last = redis.call('GET', KEYS[1])
if last and tonumber(last) > tonumber(ARGV[1]) then return {0, last} end
local function write(KEYS, ARGV)
return redis.call('SET', KEYS[1], ARGV[1])
end
redis.call('SET', KEYS[1], ARGV[1])
return {1, write({unpack(KEYS, 2)}, {unpack(ARGV, 2)})}
