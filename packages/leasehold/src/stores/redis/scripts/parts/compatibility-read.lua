-- What the text of a key says: of our own format, or of another client.

local format = ARGV[1]
local function read(key)
  local value = redis.call('GET', key)
  if not value then return nil end
  local grantId, holder = string.match(value, '^leasehold:(%x+):(.*)$')
  local revoked = false
  if not grantId then
    grantId, holder = string.match(value, '^leasehold%-revoked:(%x+):(.*)$')
    revoked = grantId ~= nil
  end
  if not grantId then
    grantId, holder = string.sub(redis.sha1hex(value), 1, 16), 'a client of ' .. format
  end
  return {grantId = grantId, holder = holder, revoked = revoked, left = redis.call('PTTL', key)}
end
