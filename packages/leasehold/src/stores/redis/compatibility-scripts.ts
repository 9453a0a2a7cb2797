/**
 * The Lua scripts of the compatibility formats, in which a grant is one string under one key. compatibility.ts
 * describes the formats.
 */

/** Defines `read`, which returns the parsed value of a key; nil if the key does not exist. */
const READ = `
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
`;

/** Calls `decide` for each request. */
const DECIDE_EACH = `
local width = (#ARGV - 1) / #KEYS
local answers = {}
for i = 1, #KEYS do
  local at = (i - 1) * width + 1
  local ok, answer = pcall(decide, KEYS[i], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
  if not ok then
    answer = {'failed', type(answer) == 'table' and answer.err or tostring(answer)}
  end
  answers[i] = answer
end
return answers`;

function batch(decide: string): string {
  return `${READ}
local function decide(key, a, b, c)
${decide}
end
${DECIDE_EACH}`;
}

/** The comment of each script lists its arguments for each key. */
export const COMPATIBILITY_SCRIPTS = {
  /** leaseId, holder, ttlMs */
  acquire: batch(`
    local r = read(key)
    if r and r.leaseId == a then
      if r.revoked then return {'ended'} end
      return {'acquired', r.left}
    end
    if r then return {'held', r.holder, r.leaseId, r.left} end
    redis.call('SET', key, 'leasehold:' .. a .. ':' .. b, 'PX', c)
    return {'acquired', tonumber(c)}`),
  /** leaseId, ttlMs */
  renew: batch(`
    local r = read(key)
    if not r then return {'lost', 'gone'} end
    if r.leaseId ~= a then return {'lost', 'taken'} end
    if r.revoked then return {'lost', 'revoked'} end
    if tonumber(b) > r.left then redis.call('PEXPIRE', key, b) end
    return {'renewed', math.max(tonumber(b), r.left)}`),
  /** leaseId */
  release: batch(`
    local r = read(key)
    if not r or r.leaseId ~= a then return {'notHeld'} end
    redis.call('DEL', key)
    return {'released'}`),
  /** "now" or "atExpiry" */
  revoke: batch(`
    local r = read(key)
    if not r then return {'notHeld'} end
    if a == 'now' then
      redis.call('DEL', key)
      return {'revoked', 0}
    end
    if r.left < 0 then return {'failed', 'the key has no expiry: revoke it at once'} end
    local value = 'leasehold-revoked:' .. r.leaseId .. ':' .. r.holder
    redis.call('SET', key, value, 'KEEPTTL')
    return {'revoked', r.left}`),
  /** no fields */
  view: batch(`
    local r = read(key)
    if not r then return {} end
    return {r.leaseId, r.holder, r.revoked and 'revoked' or 'live', r.left}`),
};
