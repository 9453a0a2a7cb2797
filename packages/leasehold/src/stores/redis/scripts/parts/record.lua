-- The record of the current request: `key`, and `queue` for its wait queue.

local indexes, lists, length = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local key, queue
