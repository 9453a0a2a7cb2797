/**
 * Those who wait for a resource, in Lua: lease/queue.ts in the words of Redis.
 *
 *   line     sorted set: tickets by their place, which counts up
 *   ends     sorted set: the same tickets by when they are forgotten
 *   waiters  hash: by ticket, who waits
 *
 * A ticket is a grant id, so that no lease id gets here. A step costs the logarithm of the line's
 * length, and the forgetting of those who have died, which happens once to each.
 *
 * The record has the time until which anybody waits (`waitedUntil`): where it has passed, nobody need
 * look here. The three keys expire then, and live no less: each that moves it moves their expiry too.
 */
import { queue } from "../../lease/index.js";

const RESERVED_US = queue.RESERVED_MS * 1_000;
const LONGEST_TICKET_US = queue.LONGEST_TICKET_MS * 1_000;
/** Lua hands over a few thousand arguments at most. */
const TICKETS_AT_ONCE = 1_000;

/** Of the request that is decided: `key, line, ends, waiters`. Else it needs `now`, `text` and a record. */
export const LINE = `
local function isWaitedFor(r) return r.waitedUntil > now end
local function remove(tickets)
  for from = 1, #tickets, ${TICKETS_AT_ONCE} do
    local to = math.min(from + ${TICKETS_AT_ONCE - 1}, #tickets)
    redis.call('ZREM', line, unpack(tickets, from, to))
    redis.call('ZREM', ends, unpack(tickets, from, to))
    redis.call('HDEL', waiters, unpack(tickets, from, to))
  end
end
local function forgetDead(r)
  local dead = redis.call('ZRANGEBYSCORE', ends, '-inf', text(now))
  if #dead == 0 then return end
  -- It changes nothing, but is refused where the memory is full, and what deletes behind it.
  redis.call('HSET', key, 'waitedUntil', text(r.waitedUntil))
  remove(dead)
end
local function first() return redis.call('ZRANGE', line, 0, 0)[1] end
local function aheadOf(ticket)
  local place = redis.call('ZRANK', line, ticket)
  return place or redis.call('ZCARD', line), place
end
local function reservedFor(ahead) return math.min(ahead, ${queue.MOST_AWAITED}) * ${RESERVED_US} end
local function leaveTicket(r, ticket, isNew, holder, queueMs)
  local endsAt = now + math.min(queueMs * 1000, ${LONGEST_TICKET_US})
  if not isNew then endsAt = math.max(endsAt, tonumber(redis.call('ZSCORE', ends, ticket))) end
  if isNew or endsAt > r.waitedUntil then
    local waitedUntil = math.max(endsAt, r.waitedUntil)
    redis.call('HSET', key, 'waitedUntil', text(waitedUntil))
    redis.call('ZADD', ends, text(endsAt), ticket)
    if isNew then
      local last = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')
      redis.call('ZADD', line, text((last[2] or 0) + 1), ticket)
      redis.call('HSET', waiters, ticket, holder)
    end
    for _, each in ipairs({line, ends, waiters}) do
      redis.call('PEXPIREAT', each, text(math.ceil(waitedUntil / 1000)))
    end
  else
    redis.call('ZADD', ends, text(endsAt), ticket)
  end
end
-- Who has been served, and those before it: they were passed over. What fails here expires by itself.
local function leaveLine(place)
  pcall(function() remove(redis.call('ZRANGE', line, 0, place)) end)
end
local function wakeFirst(channel, resource)
  local ticket = first()
  if ticket then redis.pcall('PUBLISH', channel, ticket .. ' ' .. resource) end
end
-- Behind what has been written: it must not fail any more.
local function wake(r, channel, resource)
  if not isWaitedFor(r) then return end
  pcall(function()
    forgetDead(r)
    wakeFirst(channel, resource)
  end)
end
-- A waiter gives its place up. What was kept for it is kept for the next one.
local function withdraw(r, ticket, channel, resource, isFree)
  if not isWaitedFor(r) then return end
  forgetDead(r)
  local _, place = aheadOf(ticket)
  if not place then return end
  remove({ticket})
  if place == 0 and isFree then wakeFirst(channel, resource) end
end
`;
