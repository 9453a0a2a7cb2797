-- What the text of a key says: of our own format, or of another client.

local format = ARGV[1]
local function read(key)
  local value = redis.call('GET', key)
  if not value then return nil end
  local leaseId, holder = string.match(value, '^leasehold:([^:]+):(.*)$')
  local revoked = false
  if not leaseId then
    leaseId, holder = string.match(value, '^leasehold%-revoked:([^:]+):(.*)$')
    revoked = leaseId ~= nil
  end
  if not leaseId then
    -- Its text is a secret. No lease id is as short.
    leaseId, holder = string.sub(redis.sha1hex(value), 1, 16), 'a client of ' .. format
  end
  return {leaseId = leaseId, holder = holder, revoked = revoked, left = redis.call('PTTL', key)}
end
