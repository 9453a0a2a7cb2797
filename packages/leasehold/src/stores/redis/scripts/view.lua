-- Reads the record of each resource.
--
-- KEYS   the indexes that the batch touches; for each request its record
-- ARGV   the number of indexes, the number of lists, the length of a list
--        each list, which is empty, and the number of its requests
--        for each request ''
-- Reply  the server's time; then for each request:
--        {'view', {}}                                no record
--        {'view', {lease id, holder, token, ttlMs, grantedAt, renewedAt, expiresAt, ended, metadata}}
--        {'failed', message}                         refused; the other requests are decided
--        Times are microseconds since 1970.

-- includes parts/common.lua

-- includes parts/record.lua

-- includes parts/index.lua
-- includes parts/keep.lua

local keysEach = 1
local function decide(id, c)
return {'view', view(key)}
end

-- includes parts/decide-each.lua
