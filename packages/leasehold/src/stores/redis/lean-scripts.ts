/**
 * The scripts for the common case: grants of free resources, also to the head of their queue; renewals of live grants; and
 * releases of held ones, which wake the next waiter. They load what they leave, and the rules decide on that:
 *
 *   batch ─▶ lean script ─▶ granted, renewed, released
 *              └─ loaded ─▶ rules ─▶ held, ended, lost, notHeld; a save (lease-save.ts) is rare
 *
 * A caller that waits joins the queue in the same script, unless it is granted the resource.
 *
 * What they leave out, and why that is safe:
 * - Each grant has the token `now`. A record whose token is not smaller is left to the rules.
 * - Requests that fail alone (another client has stored another type under a key) are left, not loaded. An error reply
 *   means that the script has changed nothing.
 *
 * An argument costs client and server nearly as much as its request. So the lease ids are one text, what consecutive
 * requests share is sent once, and the answer to a batch that leaves nothing has no part for each request, but for renewals.
 */
import { COMMON, KEEP, LOAD_QUEUE, LOADED } from "./scripts.js";
import { WAIT_QUEUE, WAKE } from "./wait-queue.js";

/** How requests of a verb are decided. */
interface Deciding {
  /** Whether requests may meet waiters. The key of a wait queue costs each request something, also if no one waits. */
  readonly hasQueue: boolean;
  /** Whether it needs the indexes of the records. */
  readonly hasIndex: boolean;
  readonly options: readonly string[];
  /** What else is the same for all requests with the same options, and how it is computed. */
  readonly shared?: readonly string[];
  readonly prepare?: string;
  /** From `id`, `key` and the options it sets `what`, and `answer`. With a queue, whose key may fail alone, its errors are caught. */
  readonly decide: string;
}

/**
 *   KEYS   the indexes; then for each request its record (and its wait queue)
 *   ARGV   the number of indexes, if there are any; the lease ids in one text, all of one length; then for requests that follow one another and
 *          have the same options: the options, and how many they are, which is left out at the end
 *   reply  the server's time; then for each request of which there is more to say its number, what became of it, and the answer
 */
const lean = ({ hasQueue, hasIndex, options, shared = [], prepare = "", decide }: Deciding) => {
  const given = options.join(", ");
  const first = hasIndex ? 3 : 2;
  return `${COMMON}${hasIndex ? KEEP : "\nlocal indexes = 0"}${
    hasQueue ? WAIT_QUEUE + WAKE + LOAD_QUEUE : ""
  }
local answers = {now}
local ids, i, total = ARGV[${first - 1}], 0, (#KEYS - indexes)${hasQueue ? " / 2" : ""}
local width = #ids / total
local ${["id", "what", "answer", ...options, ...shared].join(", ")}
${hasQueue ? `local function decide()\n${decide}\nend` : ""}
for at = ${first}, math.max(${first}, #ARGV), ${options.length + 1} do
  ${given && `${given} = unpack(ARGV, at, at + ${options.length - 1})`}
  ${prepare}
  for _ = 1, ARGV[at + ${options.length}] or total - i do
    i = i + 1
    ${hasQueue ? "key, queue = KEYS[indexes + 2 * i - 1], KEYS[indexes + 2 * i]" : "key = KEYS[indexes + i]"}
    id, what, answer = string.sub(ids, (i - 1) * width + 1, i * width), nil, ''
    ${hasQueue ? "if not pcall(decide) then what, answer = 'failed', '' end" : decide}
    if what then
      local n = #answers
      answers[n + 1], answers[n + 2], answers[n + 3] = i, what, answer
    end
  end
end
return answers`;
};

/**
 * holder, ttlMs, metadata as JSON, queueMs, whether to return the replaced grant: "1" or "". It answers
 *   'replaced', loaded   granted: as the key was before
 *   'joined', loaded     left: as the key was before the waiter joined, or stayed for longer
 *   'loaded', loaded     left
 */
const acquire = (hasQueue: boolean) =>
  lean({
    hasQueue,
    hasIndex: true,
    options: ["holder", "ttlMs", "metadata", "queueMs", "returnReplaced"],
    shared: ["untilUs", "expiresAt", "day"],
    prepare: `untilUs = now + ttlMs * 1000
  expiresAt, day = text(untilUs), dayOf(untilUs)`,
    decide: `
  local f = redis.pcall('HMGET', key, 'grantId', 'token', 'expiresAt', 'ended', 'waitedUntil')
  local token, last = tonumber(f[2] or 0), tonumber(f[3] or 0)
  local isFree, isAwaited = f[4] == 'released' or now >= last, f[5] and tonumber(f[5]) > now
  local isListed, index = f[1] and (last >= day or token >= day), nil
  ${
    hasQueue
      ? `local ahead, position = 0, nil
  if isAwaited then
    removeExpired(f[5])
    ahead, position = aheadOf(id)
  end
  local isNext = ahead == 0`
      : "local isNext = not isAwaited"
  }
  if isNext and isFree and f[1] ~= id and token < now and not f.err then
    if not isListed then isListed, index = pcall(listed) end
  else
    isListed = false
  end
  if isListed then
    if returnReplaced ~= '' and f[1] then what, answer = 'replaced', ${LOADED} end
    redis.call('HSET', key, 'grantId', id, 'token', nowText, 'expiresAt', expiresAt, 'ended', '',
      'holder', holder, 'ttlMs', ttlMs, 'grantedAt', nowText, 'renewedAt', '', 'metadata', metadata)
    if index then keepUntil(untilUs, index) end
    ${hasQueue ? "if position then pcall(removeServed, position) end" : ""}
  else
    what, answer = 'loaded', ${hasQueue ? "load(id)" : LOADED}
    ${
      hasQueue
        ? `if queueMs ~= '0' and f[1] ~= id and (isAwaited or not isFree) then
      what = 'joined'
      putWaiter(id, not position, holder, now + queueMs * 1000, tonumber(f[5] or 0))
    end`
        : ""
    }
  end`,
  });

/** ttlMs. It answers 'renewed' and the token, or 'longer' with its expiry too; or 'loaded', loaded */
const RENEW = lean({
  hasQueue: false,
  hasIndex: true,
  options: ["ttlMs"],
  decide: `
  local f = redis.pcall('HMGET', key, 'grantId', 'token', 'expiresAt', 'ended')
  local last = tonumber(f[3] or 0)
  local token, untilUs = tonumber(f[2] or 0), now + ttlMs * 1000
  local keptUs = math.max(token, last, untilUs)
  local isLive, index = f[1] == id and f[4] == '' and now < last, nil
  if isLive and math.max(token, last) < dayOf(keptUs) then isLive, index = pcall(listed) end
  if isLive then
    what, answer = 'renewed', f[2]
    if last > untilUs then untilUs, what, answer = last, 'longer', {f[2], f[3]} end
    redis.call('HSET', key, 'ttlMs', ttlMs, 'renewedAt', nowText, 'expiresAt', text(untilUs))
    if index then keepUntil(keptUs, index) end
  else
    what, answer = 'loaded', ${LOADED}
  end`,
});

/** channel. It answers 'loaded', loaded */
const release = (hasQueue: boolean) =>
  lean({
    hasQueue,
    hasIndex: hasQueue,
    options: hasQueue ? ["channel"] : [],
    decide: `
  local f = redis.pcall('HMGET', key, 'grantId', 'expiresAt', 'ended', 'waitedUntil')
  local isAwaited = f[4] and tonumber(f[4]) > now
  if f[1] == id and f[3] ~= 'released' and now < tonumber(f[2])${hasQueue ? "" : " and not isAwaited"} then
    redis.call('HSET', key, 'ended', 'released', 'expiresAt', nowText)
    ${hasQueue ? "if isAwaited then pcall(leaveAndWake, id, channel, f[4]) end" : ""}
  else
    what, answer = 'loaded', ${hasQueue ? "load(id)" : LOADED}
  end`,
  });

export const LEAN_SCRIPTS = {
  acquireFree: acquire(false),
  acquireOrJoin: acquire(true),
  renew: RENEW,
  releaseHeld: release(false),
  releaseAndWake: release(true),
};
