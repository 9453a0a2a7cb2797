/**
 * The wait queue of a resource, in Lua.
 *
 *   queue   sorted set, for each waiter   LEASE          scored by its position, which counts up
 *                                         LEASE HOLDER   with the same score
 *                                         @LEASE         scored by its expiry, above all positions
 *
 * A waiter is stored by its lease id; notifications name it by its grant id. A step costs the logarithm of the
 * queue's length, plus the removal of expired waiters, which happens once for each. The queue is a
 * single key, because each key costs every call something, even if no client waits.
 *
 * The record's `waitedUntil` is the latest expiry of its waiters. Once it has passed, a call skips the
 * queue. The queue's key expires then and not before: a change to `waitedUntil` also moves the key's
 * expiry.
 */
import { grantIdOf } from "../../env/index.js";

/** Above every position, and below every time in microseconds since 1970. */
const FIRST_EXPIRY = "1000000000000";

/** Needs `key` and `queue` of the current request, besides `now`, `nowText` and `text`. */
export const WAIT_QUEUE = `
local function remove(waiter)
  local position = redis.call('ZSCORE', queue, waiter)
  if position then redis.call('ZREMRANGEBYSCORE', queue, position, position) end
  redis.call('ZREM', queue, '@' .. waiter)
end
local function removeExpired(waitedUntil)
  local expired = redis.call('ZRANGEBYSCORE', queue, ${FIRST_EXPIRY}, nowText)
  if #expired == 0 then return end
  -- Changes nothing. If the memory is full, the server rejects this write before the deletions below.
  redis.call('HSET', key, 'waitedUntil', waitedUntil)
  for _, each in ipairs(expired) do remove(string.sub(each, 2)) end
end
local function waiterCount() return redis.call('ZCARD', queue) / 3 end
local function firstHolder()
  return string.match(redis.call('ZRANGE', queue, 1, 1)[1] or '', ' (.*)') or ''
end
local function aheadOf(waiter)
  local rank = redis.call('ZRANK', queue, waiter)
  if rank then return rank / 2, rank / 2 end
  return waiterCount(), nil
end
local function putWaiter(waiter, isNew, holder, endsAt, waitedUntil)
  if not isNew then endsAt = math.max(endsAt, tonumber(redis.call('ZSCORE', queue, '@' .. waiter))) end
  local longest = math.max(endsAt, waitedUntil)
  -- A key of another type fails before anything is written.
  local last = isNew
    and redis.call('ZREVRANGEBYSCORE', queue, ${FIRST_EXPIRY}, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if isNew or endsAt > waitedUntil then redis.call('HSET', key, 'waitedUntil', text(longest)) end
  if isNew then
    local position = text((last[2] or 0) + 1)
    redis.call('ZADD', queue, position, waiter, position, waiter .. ' ' .. holder, text(endsAt), '@' .. waiter)
  else
    redis.call('ZADD', queue, text(endsAt), '@' .. waiter)
  end
  if isNew or endsAt > waitedUntil then
    redis.call('PEXPIREAT', queue, text(math.ceil(longest / 1000)))
  end
end`;

/** What runs after the writes of a request must not fail it: anything that it misses expires. */
export const WAKE = `
-- Removes the served waiter and those before it, which were passed over.
local function removeServed(position)
  local served = redis.call('ZRANGE', queue, 0, 2 * position)
  redis.call('ZREMRANGEBYRANK', queue, 0, 2 * position + 1)
  for i = 1, #served, 2 do redis.call('ZREM', queue, '@' .. served[i]) end
end
local function wakeFirst(channel)
  local waiter = redis.call('ZRANGE', queue, 0, 0)[1]
  if waiter then
    local _, resource = indexAndResource()
    redis.call('PUBLISH', channel, string.sub(waiter, 1, 16) .. ' ' .. resource)
  end
end
local function leaveAndWake(waiter, channel, waitedUntil)
  removeExpired(waitedUntil)
  remove(waiter)
  wakeFirst(channel)
end`;

export interface Waiting {
  readonly holder: string;
  readonly grantId: string;
}

/** From the whole sorted set, each member before its score: the waiters, the head of the queue first. */
export function waitersOf(entries: readonly string[], nowUs: number): Waiting[] {
  const scores = new Map<string, number>();
  for (let at = 0; at < entries.length; at += 2) {
    scores.set(entries[at] ?? "", Number(entries[at + 1]));
  }
  const isLive = (waiter: string) => (scores.get(`@${waiter}`) ?? 0) > nowUs;
  return [...scores.keys()].flatMap((member) => {
    const space = member.indexOf(" ");
    const leaseId = member.slice(0, Math.max(0, space));
    return isLive(leaseId)
      ? [{ grantId: grantIdOf(leaseId), holder: member.slice(space + 1) }]
      : [];
  });
}
