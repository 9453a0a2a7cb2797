/**
 * How decisions about keys are saved: each if the record is as it was loaded, and if the grant that it extends or ends has not
 * expired meanwhile. No rule is stated here.
 */
import { invariant } from "../../env/index.js";
import type { Change } from "../../store-kit/index.js";
import { refusedOutcome } from "./failures.js";
import type { Keys } from "./keys.js";
import type { Version } from "./lease-load.js";
import { COMMON, DAY_US, FAILURE, KEEP } from "./scripts.js";
import { WAIT_QUEUE, WAKE } from "./wait-queue.js";

/**
 *   KEYS   the indexes; then for each change its record and its wait queue
 *   ARGV   the number of indexes; the changes as JSON
 *   reply  for each change 1: saved, 0: another client has changed the record, or the message of its failure
 */
export const SAVE = `${COMMON}${FAILURE}${KEEP}${WAIT_QUEUE}${WAKE}
local function versionOf(f)
  return table.concat({f[1] or '', f[2] or '', f[3] or '', f[4] or '', f[5] or ''}, ',')
end
local function save(c)
  local f = redis.call('HMGET', key, 'grantId', 'token', 'expiresAt', 'ended', 'renewedAt', 'waitedUntil')
  local isSaved, r = versionOf(f) == c.version, c.record
  if isSaved and r then
    -- A grant that is over already was decided by a client that was paused, and after a day nothing tells what was collected.
    isSaved = now < tonumber(c.changesGrant and f[3] or r.expiresAt)
      and (c.changesGrant or now - tonumber(r.grantedAt) < ${DAY_US})
  end
  -- A key of another type fails before anything is written.
  if #c.joins > 0 then redis.call('ZCARD', queue) end
  if isSaved and r then
    local untilUs = math.max(tonumber(r.token), tonumber(r.expiresAt))
    local isListed = f[1] and math.max(tonumber(f[2]), tonumber(f[3])) >= dayOf(untilUs)
    local index = not isListed and listed()
    redis.call('HSET', key, 'grantId', r.leaseId, 'token', r.token, 'expiresAt', r.expiresAt, 'ended', r.ended,
      'holder', r.holder, 'ttlMs', r.ttlMs, 'grantedAt', r.grantedAt, 'renewedAt', r.renewedAt, 'metadata', r.metadata)
    if index then keepUntil(untilUs, index) end
  end
  local waitedUntil = tonumber(f[6] or 0)
  -- A waiter is known by its record.
  if f[1] or isSaved then
    for _, waiter in ipairs(c.joins) do
      local _, position = aheadOf(waiter.leaseId)
      putWaiter(waiter.leaseId, not position, waiter.holder, tonumber(waiter.expiresAt), waitedUntil)
      waitedUntil = math.max(waitedUntil, tonumber(waiter.expiresAt))
    end
  end
  -- Positions are given up in any case, and where the record has changed, the first waiter that remains may have to know.
  local isLeft = not r and #c.withdrawn > 0
  if not isSaved and not isLeft then return 0 end
  pcall(function()
    if c.served then
      local _, position = aheadOf(c.served)
      if position then removeServed(position) end
    end
    -- Waiters have no version: one that was behind another when this was decided may be the first by now.
    local isFree = f[4] == 'released' or now >= tonumber(f[3] or 0)
    local hasPassedOn = false
    for _, waiter in ipairs(c.withdrawn) do
      hasPassedOn = hasPassedOn or isFree and redis.call('ZRANK', queue, waiter) == 0
      remove(waiter)
    end
    if c.wakes or hasPassedOn or not isSaved then
      removeExpired(text(waitedUntil))
      wakeFirst(c.channel)
    end
  end)
  return 1
end
local answers = {}
for i, c in ipairs(cjson.decode(ARGV[2])) do
  key, queue = KEYS[indexes + 2 * i - 1], KEYS[indexes + 2 * i]
  local ok, answer = pcall(save, c)
  answers[i] = ok and answer or failure(answer)
end
return answers`;

/** Whole microseconds, which a double is not in milliseconds. */
const microsOf = (ms: number) => `${Math.round(ms * 1_000)}`;

/** The keys and arguments of the script that saves, and the meaning of its reply. */
export function saving(keys: Keys, changes: readonly Change<Version>[]) {
  const indexes = new Set(changes.map((change) => keys.indexOf(change)));
  const each = changes.map(({ namespace, record, joins, ...change }) => ({
    version: change.version,
    changesGrant: change.changesGrant,
    withdrawn: change.withdrawn,
    wakes: change.wakes,
    channel: keys.channel(namespace),
    ...(change.served !== null && { served: change.served }),
    joins: joins.map(({ leaseId, holder, expiresAtMs }) => ({
      leaseId,
      holder,
      expiresAt: microsOf(expiresAtMs),
    })),
    ...(record && {
      record: {
        leaseId: record.leaseId,
        token: `${record.token}`,
        expiresAt: microsOf(record.expiresAtMs),
        ended: record.ended ?? "",
        holder: record.holder,
        ttlMs: `${record.ttlMs}`,
        grantedAt: microsOf(record.grantedAtMs),
        renewedAt: record.renewedAtMs === null ? "" : microsOf(record.renewedAtMs),
        metadata: JSON.stringify(record.metadata),
      },
    }),
  }));
  return {
    places: [...indexes, ...changes.flatMap((key) => [keys.record(key), keys.queue(key)])],
    args: [`${indexes.size}`, JSON.stringify(each)],
    savedOf: (reply: unknown) => {
      invariant(Array.isArray(reply) && reply.length === changes.length, "a reply per change");
      return (reply as (number | Error)[]).map((saved) =>
        saved instanceof Error ? refusedOutcome(saved.message) : saved === 1,
      );
    },
  };
}
