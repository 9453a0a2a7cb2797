-- The wait queue of the current request. wait-queue.ts describes the contents of `queue`.

local function isWaitedFor(r) return r.waitedUntil > now end
local function remove(waiter)
  local position = redis.call('ZSCORE', queue, waiter)
  if position then redis.call('ZREMRANGEBYSCORE', queue, position, position) end
  redis.call('ZREM', queue, '@' .. waiter)
end
local function removeExpired(r)
  local expired = redis.call('ZRANGEBYSCORE', queue, 1000000000000, nowText)
  if #expired == 0 then return end
  -- Changes nothing. If the memory is full, the server rejects this write before the deletions below.
  redis.call('HSET', key, 'waitedUntil', text(r.waitedUntil))
  for _, each in ipairs(expired) do remove(string.sub(each, 2)) end
end
local function firstHolder()
  return string.match(redis.call('ZRANGE', queue, 1, 1)[1] or '', ' (.*)') or ''
end
local function aheadOf(waiter)
  local rank = redis.call('ZRANK', queue, waiter)
  if rank then return rank / 2, rank / 2 end
  return redis.call('ZCARD', queue) / 3, nil
end
local function reservedFor(ahead) return math.min(ahead, 10) * 500000 end
local function putWaiter(r, waiter, isNew, holder, queueMs)
  local endsAt = now + math.min(queueMs * 1000, 60000000)
  if not isNew then endsAt = math.max(endsAt, tonumber(redis.call('ZSCORE', queue, '@' .. waiter))) end
  local waitedUntil = math.max(endsAt, r.waitedUntil)
  if isNew or endsAt > r.waitedUntil then redis.call('HSET', key, 'waitedUntil', text(waitedUntil)) end
  if isNew then
    local last = redis.call('ZREVRANGEBYSCORE', queue, 1000000000000, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
    local position = text((last[2] or 0) + 1)
    redis.call('ZADD', queue, position, waiter, position, waiter .. ' ' .. holder, text(endsAt), '@' .. waiter)
  else
    redis.call('ZADD', queue, text(endsAt), '@' .. waiter)
  end
  if isNew or endsAt > r.waitedUntil then
    redis.call('PEXPIREAT', queue, text(math.ceil(waitedUntil / 1000)))
  end
end
-- Removes the served waiter and those before it, which were passed over. Anything missed here expires.
local function removeServed(position)
  pcall(function()
    local served = redis.call('ZRANGE', queue, 0, 2 * position)
    redis.call('ZREMRANGEBYRANK', queue, 0, 2 * position + 1)
    for i = 1, #served, 2 do redis.call('ZREM', queue, '@' .. served[i]) end
  end)
end
local function wakeFirst(channel)
  local waiter = redis.call('ZRANGE', queue, 0, 0)[1]
  if waiter then
    local _, resource = indexAndResource()
    redis.pcall('PUBLISH', channel, string.sub(waiter, 1, 16) .. ' ' .. resource)
  end
end
-- Runs after the writes, so it must not fail the script.
local function wake(r, channel)
  if not isWaitedFor(r) then return end
  pcall(function()
    removeExpired(r)
    wakeFirst(channel)
  end)
end
-- A waiter gives up its position. A resource reserved for it is now reserved for the next one.
local function withdraw(r, waiter, channel, isFree)
  if not isWaitedFor(r) then return end
  removeExpired(r)
  local _, position = aheadOf(waiter)
  if not position then return end
  remove(waiter)
  if position == 0 and isFree then wakeFirst(channel) end
end
