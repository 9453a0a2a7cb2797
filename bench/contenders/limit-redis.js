// The limit on Redis: a minimal client, and scripts that keep holder, token and expiry. It knows no waiters,
// pauses, history or time limits: a floor of the cost, not a design.
import { Redis } from "ioredis";

const BATCH = 128;
const IN_FLIGHT = 3;
/** How long the key of a released lease lives, for its token. */
const KEPT_MS = 800_000_000;

const ACQUIRE = `local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local nowText = string.format('%.0f', now)
local expires = string.format('%.0f', now + ARGV[1] * 1000)
local out = {nowText}
for i = 1, #KEYS do
  local f = redis.call('HMGET', KEYS[i], 'id', 'token', 'expires', 'ended')
  if f[1] and f[4] ~= '1' and tonumber(f[3]) > now then
    out[i + 1] = ''
  else
    local token = nowText
    if f[2] and tonumber(f[2]) >= now then token = string.format('%.0f', tonumber(f[2]) + 1) end
    redis.call('HSET', KEYS[i], 'id', ARGV[i + 2], 'token', token, 'expires', expires,
      'ended', '0', 'holder', ARGV[2], 'at', nowText)
    if not f[1] then redis.call('PEXPIRE', KEYS[i], ${KEPT_MS}) end
    out[i + 1] = token == nowText and '=' or token
  end
end
return out`;
const RELEASE = `local t = redis.call('TIME')
local nowText = string.format('%.0f', t[1] * 1000000 + t[2])
local out = {}
for i = 1, #KEYS do
  if redis.call('HGET', KEYS[i], 'id') == ARGV[i] then
    redis.call('HSET', KEYS[i], 'ended', '1', 'expires', nowText)
    out[i] = 1
  else
    out[i] = 0
  end
end
return out`;

/** @param {string} url @param {number} ttlMs */
export function open(url, ttlMs) {
  const redis = /** @type {any} */ (new Redis(url));
  redis.defineCommand("limitAcquire", { lua: ACQUIRE });
  redis.defineCommand("limitRelease", { lua: RELEASE });
  const keysOf = (/** @type {Request[]} */ batch) => batch.map(({ key }) => key);
  const idsOf = (/** @type {Request[]} */ batch) => batch.map(({ id }) => id);
  const acquires = new Batches(async (batch) => {
    const args = [...keysOf(batch), ttlMs, "me", ...idsOf(batch)];
    const [now, ...tokens] = await redis.limitAcquire(batch.length, ...args);
    return tokens.map((/** @type {string} */ token) => (token === "=" ? now : token));
  });
  const releases = new Batches((batch) =>
    redis.limitRelease(batch.length, ...keysOf(batch), ...idsOf(batch)),
  );
  let serial = 0;
  return {
    async pair(/** @type {string} */ key) {
      const id = (serial++).toString(16).padStart(32, "0");
      if ((await acquires.submit(key, id)) === "") throw new Error(`${key} is held`);
      if ((await releases.submit(key, id)) !== 1) throw new Error(`${key} was lost`);
    },
    close: () => redis.disconnect(),
  };
}

/** @typedef {{ key: string, id: string, resolve: (outcome: unknown) => void, reject: (error: unknown) => void }} Request */

/** Sends requests together that callers submit at the same time, or while as many calls as allowed are in flight. */
class Batches {
  /** @type {Request[]} */
  #waiting = [];
  #inFlight = 0;
  #isScheduled = false;
  #send;

  /** @param {(batch: Request[]) => Promise<unknown[]>} send */
  constructor(send) {
    this.#send = send;
  }

  /** @param {string} key @param {string} id */
  submit(key, id) {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ key, id, resolve, reject });
      if (this.#inFlight >= IN_FLIGHT || this.#isScheduled) return;
      this.#isScheduled = true;
      queueMicrotask(() => {
        this.#isScheduled = false;
        this.#sendWaiting();
      });
    });
  }

  #sendWaiting() {
    while (this.#waiting.length > 0 && this.#inFlight < IN_FLIGHT)
      void this.#sendBatch(this.#waiting.splice(0, BATCH));
  }

  /** @param {Request[]} batch */
  async #sendBatch(batch) {
    this.#inFlight += 1;
    try {
      const outcomes = await this.#send(batch);
      for (const [at, { resolve }] of batch.entries()) resolve(outcomes[at]);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
    this.#inFlight -= 1;
    this.#sendWaiting();
  }
}
