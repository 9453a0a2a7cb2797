-- Grants each free resource to its request; returns the holder to the others. A request that waits
-- is added to the wait queue.
--
-- KEYS   the indexes that the batch touches; for each request its record and its wait queue
-- ARGV   the number of indexes, the number of lists, the length of a list
--        each list and the number of its requests: holder, ttlMs, queueMs, metadata as JSON, '1' to see the grant that was replaced or ''
--        for each request its lease id
-- Reply  the server's time; then for each request:
--        an integer                                  granted: the token less the time
--        {'replaced', token, view}                   granted: the view is of the grant before, as in view.lua
--        {'acquired', token, ttlMs, left, expiresAt} granted before, by the same request
--        {'held', holder, leaseId, left, ahead}      ahead: waiters before this one. If the resource is free but
--                                                    reserved: the first waiter as holder, leaseId ''
--        {'ended'}                                   the grant of this lease id has ended
--        {'failed', message}                         refused; the other requests are decided
--        Times are microseconds since 1970.

-- includes parts/common.lua

-- includes parts/record.lua

-- includes parts/index.lua
-- includes parts/keep.lua

-- includes parts/wait-queue.lua

local keysEach = 2
local function decide(id, c)

  local holder, ttlMs, queueMs = c[1], c[2], c[3]
  local r = read(key)
  if r and r.leaseId == id then
    if r.ended ~= '' or now >= r.expiresAt then return {'ended'} end
    return {'acquired', term(r, redis.call('HGET', key, 'ttlMs'))}
  end
  local isHeld, waits = r and excludes(r), queueMs ~= '0'
  if isHeld and not waits then
    return {'held', redis.call('HGET', key, 'holder'), r.leaseId, text(r.expiresAt - now), ''}
  end
  local ahead, position = 0, nil
  if isHeld or r and isWaitedFor(r) then
    removeExpired(r)
    ahead, position = aheadOf(id)
    local left = r.expiresAt + reservedFor(ahead) - now
    -- A clock that was set back reserves nothing.
    if isHeld or now >= r.expiresAt and left > 0 then
      local by, leaseId = '', ''
      if isHeld then by, leaseId = redis.call('HGET', key, 'holder'), r.leaseId else by = firstHolder() end
      if waits then putWaiter(r, id, not position, holder, queueMs) end
      return {'held', by, leaseId, text(left), text(ahead)}
    end
  end
  local before = c[5] ~= '' and r and view(key)
  local token, tokenText = now, nowText
  if r and r.token >= now then
    token = r.token + 1
    tokenText = text(token)
  end
  local expiresAt = now + ttlMs * 1000
  c.expiresAt = c.expiresAt or text(expiresAt)
  redis.call('HSET', key, 'grantId', id, 'token', tokenText, 'expiresAt', c.expiresAt, 'ended', '',
    'holder', holder, 'ttlMs', ttlMs, 'grantedAt', nowText, 'renewedAt', '', 'metadata', c[4])
  keep({token = token, expiresAt = expiresAt}, r and untilOf(r))
  if position then removeServed(position) end
  if before then return {'replaced', tokenText, before} end
  return token - now
end

-- includes parts/decide-each.lua
