/**
 * Those who wait for a resource, in Lua: core/queue.ts in the words of Redis.
 *
 *   line   sorted set, of each who waits   TICKET          by its place, which counts up
 *                                          TICKET HOLDER   beside it
 *                                          @TICKET         by when it is forgotten, behind all places
 *
 * A ticket is a grant id, so that no lease id gets here. A step costs the logarithm of the line's
 * length, and the forgetting of those who have died, which happens once to each. It is one key, because
 * each costs every call something, also where nobody waits.
 *
 * The record has the time until which anybody waits (`waitedUntil`): where it has passed, nobody need
 * look here. The line expires then, and lives no less: whatever moves it moves its expiry too.
 */
import { queue } from "../../core/index.js";

const RESERVED_US = queue.RESERVED_MS * 1_000;
const LONGEST_TICKET_US = queue.LONGEST_TICKET_MS * 1_000;
/** No place is so large, and no time in microseconds since 1970 so small. */
const FIRST_END = "1000000000000";

/** Of the request that is decided: `key, line`. Else it needs `now`, `nowText`, `text` and a record. */
export const WAIT_QUEUE = `
local function isWaitedFor(r) return r.waitedUntil > now end
local function remove(ticket)
  local place = redis.call('ZSCORE', line, ticket)
  if place then redis.call('ZREMRANGEBYSCORE', line, place, place) end
  redis.call('ZREM', line, '@' .. ticket)
end
local function forgetDead(r)
  local dead = redis.call('ZRANGEBYSCORE', line, ${FIRST_END}, nowText)
  if #dead == 0 then return end
  -- It changes nothing, but is refused where the memory is full, and what deletes behind it.
  redis.call('HSET', key, 'waitedUntil', text(r.waitedUntil))
  for _, each in ipairs(dead) do remove(string.sub(each, 2)) end
end
local function firstHolder()
  return string.sub(redis.call('ZRANGE', line, 1, 1)[1] or '', ${16 + 2})
end
local function aheadOf(ticket)
  local rank = redis.call('ZRANK', line, ticket)
  if rank then return rank / 2, rank / 2 end
  return redis.call('ZCARD', line) / 3, nil
end
local function reservedFor(ahead) return math.min(ahead, ${queue.MOST_AWAITED}) * ${RESERVED_US} end
local function leaveTicket(r, ticket, isNew, holder, queueMs)
  local endsAt = now + math.min(queueMs * 1000, ${LONGEST_TICKET_US})
  if not isNew then endsAt = math.max(endsAt, tonumber(redis.call('ZSCORE', line, '@' .. ticket))) end
  local waitedUntil = math.max(endsAt, r.waitedUntil)
  if isNew or endsAt > r.waitedUntil then redis.call('HSET', key, 'waitedUntil', text(waitedUntil)) end
  if isNew then
    local last = redis.call('ZREVRANGEBYSCORE', line, ${FIRST_END}, '-inf', 'WITHSCORES', 'LIMIT', 0, 1)
    local place = text((last[2] or 0) + 1)
    redis.call('ZADD', line, place, ticket, place, ticket .. ' ' .. holder, text(endsAt), '@' .. ticket)
  else
    redis.call('ZADD', line, text(endsAt), '@' .. ticket)
  end
  if isNew or endsAt > r.waitedUntil then
    redis.call('PEXPIREAT', line, text(math.ceil(waitedUntil / 1000)))
  end
end
-- Who has been served, and those before it: they were passed over. What fails here expires by itself.
local function leaveLine(place)
  pcall(function()
    local served = redis.call('ZRANGE', line, 0, 2 * place)
    redis.call('ZREMRANGEBYRANK', line, 0, 2 * place + 1)
    for i = 1, #served, 2 do redis.call('ZREM', line, '@' .. served[i]) end
  end)
end
local function wakeFirst(channel)
  local ticket = redis.call('ZRANGE', line, 0, 0)[1]
  if ticket then
    local _, resource = indexAndResource()
    redis.pcall('PUBLISH', channel, ticket .. ' ' .. resource)
  end
end
-- Behind what has been written: it must not fail any more.
local function wake(r, channel)
  if not isWaitedFor(r) then return end
  pcall(function()
    forgetDead(r)
    wakeFirst(channel)
  end)
end
-- A waiter gives its place up. What was kept for it is kept for the next one.
local function withdraw(r, ticket, channel, isFree)
  if not isWaitedFor(r) then return end
  forgetDead(r)
  local _, place = aheadOf(ticket)
  if not place then return end
  remove(ticket)
  if place == 0 and isFree then wakeFirst(channel) end
end
`;

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
  const isLive = (ticket: string) => (scores.get(`@${ticket}`) ?? 0) > nowUs;
  return [...scores.keys()].flatMap((member) => {
    const space = member.indexOf(" ");
    const grantId = member.slice(0, Math.max(0, space));
    return isLive(grantId) ? [{ grantId, holder: member.slice(space + 1) }] : [];
  });
}
