/** The guard of data in Redis. One script checks the token and writes, so the two are atomic. */
import {
  checkArray,
  checkFunction,
  checkKnown,
  checkObject,
  InvalidOptionError,
  kindOf,
} from "../lease/index.js";
import { checkFenced, type GuardOptions, Refusals } from "./guard.js";

/** A write that a guard runs together with its check. */
export interface RedisWrite {
  /** The body of a Lua script with its KEYS and ARGV. The guard returns its result. */
  readonly script: string;
  /** In a cluster, keys must be in the slot of the resource: give them the hash tag `{resource}`. */
  readonly keys?: readonly string[];
  readonly args?: readonly (string | number)[];
}

/** Runs writes in Redis, and refuses those with a stale token. */
export interface RedisGuard {
  /** The number of refused writes. */
  readonly refusals: number;
  /**
   * Runs the script unless a newer holder has written.
   * @throws STALE_TOKEN, with nothing written; INVALID_OPTION; errors of the client
   */
  write(resource: string, token: number, write: RedisWrite): Promise<unknown>;
}

/**
 * A guard of data in Redis. The script checks the token and writes in one step. The tokens are kept in the same
 * Redis, so they last as long as the data.
 * @param send sends a command with any client: `(...args) => redis.call(...args)` with ioredis
 * @throws INVALID_OPTION
 * @example
 * ```ts
 * import { Redis } from "ioredis";
 * import { redisGuard } from "leasehold/fence";
 *
 * const redis = new Redis();
 * const guard = redisGuard((command, ...args) => redis.call(command, ...args));
 * const script = "return redis.call('SET', KEYS[1], ARGV[1])";
 * await guard.write("billing", 7, { script, keys: ["{billing}:status"], args: ["closed"] });
 * ```
 */
export function redisGuard(
  send: (command: string, ...args: string[]) => Promise<unknown>,
  options: GuardOptions = {},
): RedisGuard {
  checkFunction("send", send);
  const refusals = new Refusals(options);
  const { namespace } = refusals;
  return {
    get refusals() {
      return refusals.count;
    },
    async write(resource, token, write) {
      checkFenced(namespace, resource, token);
      const { script, keys, args } = checkWrite(write);
      const place = `leasehold:fence:${namespace.length}:${namespace}:{${resource}}`;
      const answer = await send(
        "EVAL",
        guarded(script),
        String(keys.length + 1),
        place,
        ...keys,
        String(token),
        ...args.map(String),
      );
      const [passed, value] = answerOf(answer);
      if (passed) return value;
      throw refusals.refuse(resource, token, Number(value));
    },
  };
}

/**
 * The script's reply. Within MULTI, Redis answers `QUEUED`, and clients answer a pipeline with themselves.
 * @throws InvalidOptionError for what is no reply of the script: whether it has written is unknown
 */
function answerOf(answer: unknown): [passed: boolean, value: unknown] {
  if (Array.isArray(answer)) {
    const [passed, value] = answer as unknown[];
    // Clients differ: one returns this reply as a number, another as a string, and an empty write shortens it.
    if (Number(passed) === 1) return [true, value];
    if (Number(passed) === 0 && Number(value) >= 1) return [false, value];
  }
  const remedy = "pass (...args) => redis.call(...args) of a client outside of MULTI and pipelines";
  const got = answer === "QUEUED" ? "QUEUED" : kindOf(answer);
  throw new InvalidOptionError("send", `must return the reply of Redis, got ${got}: ${remedy}`);
}

/** The script stores the token before it writes, so an argument that it cannot use is refused here. */
function checkWrite(write: RedisWrite): Required<RedisWrite> {
  checkObject("write", write);
  checkKnown(write, { script: true, keys: true, args: true });
  const { script, keys = [], args = [] } = write;
  if (typeof script !== "string") throw new InvalidOptionError("script", "must be a text");
  checkArray("keys", keys);
  checkArray("args", args);
  for (const [at, key] of keys.entries()) {
    if (typeof key !== "string") throw new InvalidOptionError(`keys.${at}`, "must be a text");
  }
  for (const [at, arg] of args.entries()) {
    if (typeof arg === "string" || typeof arg === "number") continue;
    throw new InvalidOptionError(`args.${at}`, "must be a text or a number");
  }
  return { script, keys, args };
}

/**
 * Tokens are safe integers, which Lua's doubles keep exactly. The script stores the token before the write:
 * Redis does not roll back a script that fails half-way, and no older write may follow it.
 */
function guarded(script: string): string {
  return `
local last = redis.call('GET', KEYS[1])
if last and tonumber(last) > tonumber(ARGV[1]) then return {0, last} end
local function write(KEYS, ARGV)
${script}
end
redis.call('SET', KEYS[1], ARGV[1])
return {1, write({unpack(KEYS, 2)}, {unpack(ARGV, 2)})}`;
}
