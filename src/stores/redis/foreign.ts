/**
 * Locks as node-redlock and redis-semaphore keep them in Redis: one string under one key, which
 * expires. Whoever has put it there holds the lock; the others find the key taken.
 *
 *   redlock          key RESOURCE         32 hex digits
 *   redis-semaphore  key mutex:RESOURCE   a UUID
 *   here             either key           leasehold:GRANT:HOLDER, revoked: leasehold-revoked:GRANT:HOLDER
 *
 * All of them compare their own text before they extend or delete, so that ours need not look like
 * theirs; it tells who holds the lock. A key that is gone has left nothing behind: there is no token,
 * no trace of ended grants, and an acquire that arrives after its own release grants anew.
 */
import { grantIdOf, invariant } from "../../env/index.js";
import {
  type AcquireOutcome,
  type AcquireRequest,
  type CallOptions,
  type Capabilities,
  ClosedError,
  type Failed,
  InvalidOptionError,
  type Key,
  type LeaseStore,
  type LeaseView,
  type ListQuery,
  NoTokenError,
  type Page,
  type ReleaseOutcome,
  type ReleaseRequest,
  type RenewOutcome,
  type RenewRequest,
  type RevokeOutcome,
  type RevokeRequest,
  type WatchEvent,
} from "../../lease/index.js";
import { failedOutcome, refusedOutcome } from "./failures.js";
import type { Lane, Script, Servers } from "./servers.js";

export const FORMATS = ["redlock", "redis-semaphore"] as const;
/** Of whom the locks are that ours contend with. */
export type Format = (typeof FORMATS)[number];

export type ForeignScriptName = "acquire" | "renew" | "release" | "revoke" | "view";

const DEFAULT_TIMEOUT_MS = 10_000;
const NAMESPACE = "default";
/** The port wants a number; `capabilities.tokens` says that this one means nothing. */
const NO_TOKEN = 0;

/** Decides request after request; `read` answers null, or what the key's text says. */
function batch(decide: string): string {
  return `
local format = ARGV[1]
local function read(key)
  local value = redis.call('GET', key)
  if not value then return nil end
  local grantId, holder = string.match(value, '^leasehold:(%x+):(.*)$')
  local revoked = false
  if not grantId then
    grantId, holder = string.match(value, '^leasehold%-revoked:(%x+):(.*)$')
    revoked = grantId ~= nil
  end
  if not grantId then
    grantId, holder = string.sub(redis.sha1hex(value), 1, 16), 'a client of ' .. format
  end
  return {grantId = grantId, holder = holder, revoked = revoked, left = redis.call('PTTL', key)}
end
local function decide(key, a, b, c)
${decide}
end
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
}

export const FOREIGN_SCRIPTS: Readonly<Record<ForeignScriptName, string>> = {
  /** grantId, holder, ttlMs */
  acquire: batch(`
    local r = read(key)
    if r and r.grantId == a then
      if r.revoked then return {'ended'} end
      return {'acquired', r.left}
    end
    if r then return {'held', r.holder, r.grantId, r.left} end
    redis.call('SET', key, 'leasehold:' .. a .. ':' .. b, 'PX', c)
    return {'acquired', tonumber(c)}`),
  /** grantId, ttlMs */
  renew: batch(`
    local r = read(key)
    if not r then return {'lost', 'gone'} end
    if r.grantId ~= a then return {'lost', 'taken'} end
    if r.revoked then return {'lost', 'revoked'} end
    if tonumber(b) > r.left then redis.call('PEXPIRE', key, b) end
    return {'renewed', math.max(tonumber(b), r.left)}`),
  /** grantId */
  release: batch(`
    local r = read(key)
    if not r or r.grantId ~= a then return {'notHeld'} end
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
    local value = 'leasehold-revoked:' .. r.grantId .. ':' .. r.holder
    redis.call('SET', key, value, 'KEEPTTL')
    return {'revoked', r.left}`),
  /** nothing */
  view: batch(`
    local r = read(key)
    if not r then return {} end
    return {r.grantId, r.holder, r.revoked and 'revoked' or 'live', r.left}`),
};

type Answer = readonly (string | number)[];

export class ForeignLeaseStore implements LeaseStore {
  readonly capabilities: Capabilities = {
    clock: "store",
    grants: "portable",
    ttl: { minMs: 100, maxMs: 2 ** 31 - 1, stepMs: 1 },
    queue: false,
    watch: "poll",
    epsilonMs: 1,
    tokens: false,
  };
  readonly #closing = new AbortController();

  constructor(
    readonly servers: Servers,
    readonly scripts: Readonly<Record<ForeignScriptName, Script>>,
    readonly format: Format,
  ) {}

  acquire(requests: readonly AcquireRequest[], options?: CallOptions): Promise<AcquireOutcome[]> {
    return this.#decide("acquire", "general", requests, options, {
      refuse: ({ metadata }) =>
        metadata === undefined
          ? null
          : new InvalidOptionError("metadata", `cannot be kept in the format of ${this.format}`),
      args: ({ leaseId, holder, ttlMs }) => [grantIdOf(leaseId), holder, `${ttlMs}`],
      outcome: ({ ttlMs }, [status, ...rest]): AcquireOutcome => {
        if (status === "acquired") {
          const remainingMs = Number(rest[0]);
          const term = { ttlMs: Math.max(ttlMs, remainingMs), remainingMs, expiresAt: null };
          return { status, token: NO_TOKEN, ...term };
        }
        if (status !== "held") return { status: "ended" };
        const [holder, grantId, left] = rest;
        const remainingMs = leftOf(left);
        return { status, holder: String(holder), grantId: String(grantId), remainingMs };
      },
    });
  }

  renew(requests: readonly RenewRequest[], options?: CallOptions): Promise<RenewOutcome[]> {
    return this.#decide("renew", "control", requests, options, {
      args: ({ leaseId, ttlMs }) => [grantIdOf(leaseId), `${ttlMs}`],
      outcome: ({ ttlMs }, [status, what]): RenewOutcome => {
        if (status !== "renewed") {
          return { status: "lost", reason: what as "revoked" | "taken" | "gone" };
        }
        const term = { ttlMs, remainingMs: Number(what), expiresAt: null };
        return { status, token: NO_TOKEN, ...term };
      },
    });
  }

  release(requests: readonly ReleaseRequest[], options?: CallOptions): Promise<ReleaseOutcome[]> {
    return this.#decide("release", "control", requests, options, {
      args: ({ leaseId }) => [grantIdOf(leaseId)],
      outcome: (_, [status]): ReleaseOutcome => ({
        status: status === "released" ? status : "notHeld",
      }),
    });
  }

  revoke(requests: readonly RevokeRequest[], options?: CallOptions): Promise<RevokeOutcome[]> {
    return this.#decide("revoke", "general", requests, options, {
      refuse: ({ resource, expectedToken }) =>
        expectedToken === undefined ? null : new NoTokenError(resource),
      args: ({ free }) => [free],
      outcome: (_, [status, left]): RevokeOutcome =>
        status === "revoked"
          ? { status, token: NO_TOKEN, freeInMs: Number(left) }
          : { status: "notHeld" },
    });
  }

  async get(keys: readonly Key[]): Promise<(LeaseView | null)[]> {
    this.#assertOpen();
    const outcomes = await this.#decide("view", "general", keys, undefined, {
      args: () => [],
      outcome: (key, answer) => ({ status: "view", view: viewOf(key, answer) }),
    });
    return outcomes.map((outcome) => {
      if ("error" in outcome) throw outcome.error;
      return outcome.view;
    });
  }

  /** Any key may be a lock: those of others look no different. */
  async list(_query: ListQuery): Promise<Page<LeaseView>> {
    this.#assertOpen();
    const problem = `${this.format} has no list of its locks: look at one by its name`;
    throw new InvalidOptionError("format", problem);
  }

  async *watch(
    _namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<WatchEvent, void, void> {
    this.#assertOpen();
    if (signal.aborted) return;
    yield { type: "resync" };
    // Nobody tells of releases.
    await new Promise<void>((resolve) => {
      const signals = [signal, this.#closing.signal];
      const end = () => {
        for (const one of signals) one.removeEventListener("abort", end);
        resolve();
      };
      if (signals.some(({ aborted }) => aborted)) return resolve();
      for (const one of signals) one.addEventListener("abort", end);
    });
  }

  /** Nothing is left of ended grants. */
  async collect(): Promise<number> {
    this.#assertOpen();
    return 0;
  }

  async close(): Promise<void> {
    this.#closing.abort();
  }

  #assertOpen(): void {
    if (this.#closing.signal.aborted) throw new ClosedError("the Redis lease store");
  }

  #keyOf({ resource }: Key): string {
    const { prefix } = this.servers.driver;
    return `${prefix}${this.format === "redlock" ? "" : "mutex:"}${resource}`;
  }

  async #decide<Request extends Key, Outcome>(
    name: ForeignScriptName,
    lane: Lane,
    requests: readonly Request[],
    { timeoutMs = DEFAULT_TIMEOUT_MS }: CallOptions = {},
    call: {
      refuse?(request: Request): Error | null;
      args(request: Request): readonly string[];
      outcome(request: Request, answer: Answer): Outcome;
    },
  ): Promise<(Outcome | Failed)[]> {
    const { servers } = this;
    const deadlineMs = servers.env.clock.monotonic() + timeoutMs;
    const outcomes = new Array<Outcome | Failed>(requests.length);
    const groups = new Map<number, number[]>();
    for (const [index, request] of requests.entries()) {
      const problem = this.#refusalOf(request) ?? call.refuse?.(request) ?? null;
      if (problem) {
        outcomes[index] = failedOutcome(problem);
        continue;
      }
      const group = servers.groupOf(this.#keyOf(request));
      groups.set(group, [...(groups.get(group) ?? []), index]);
    }
    const runOne = async (indexes: readonly number[]) => {
      const batch = indexes.map((index) => requests[index] as Request);
      const keys = batch.map((request) => this.#keyOf(request));
      const args = [this.format, ...batch.flatMap((request) => call.args(request))];
      try {
        const answers = await servers.run(lane, this.scripts[name], keys, args, deadlineMs);
        invariant(Array.isArray(answers) && answers.length === batch.length, "an answer each");
        for (const [at, index] of indexes.entries()) {
          const answer = answers[at] as Answer;
          outcomes[index] =
            answer[0] === "failed"
              ? refusedOutcome(String(answer[1]))
              : call.outcome(batch[at] as Request, answer);
        }
      } catch (error) {
        for (const index of indexes) outcomes[index] = failedOutcome(error);
      }
    };
    await Promise.all([...groups.values()].map(runOne));
    return outcomes;
  }

  /** Their keys have no namespaces: two of ours would be one. */
  #refusalOf({ namespace }: Key): Error | null {
    if (this.#closing.signal.aborted) return new ClosedError("the Redis lease store");
    if (namespace === NAMESPACE) return null;
    return new InvalidOptionError("namespace", `must be "${NAMESPACE}" with format=${this.format}`);
  }
}

/** A lock of others may be without an expiry. */
function leftOf(left: string | number | undefined): number | null {
  return Number(left) < 0 ? null : Number(left);
}

function viewOf(key: Key, [grantId, holder, state, left]: Answer): LeaseView | null {
  if (grantId === undefined) return null;
  const { namespace, resource } = key;
  const remainingMs = leftOf(left) ?? 0;
  return {
    ...{ namespace, resource, holder: String(holder), grantId: String(grantId), token: NO_TOKEN },
    ...{ state: state === "revoked" ? state : "live", ttlMs: remainingMs },
    remainingMs: state === "revoked" ? 0 : remainingMs,
    ...{ grantedAt: null, renewedAt: null, expiresAt: null, metadata: null },
  };
}
