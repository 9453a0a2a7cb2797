/**
 * Leases in Redis: the port over scripts. Converts requests to arguments and replies to outcomes;
 * scripts.ts holds the decisions.
 */

import type * as port from "../../core/index.js";
import { ClosedError } from "../../core/index.js";
import { Recent, zip } from "../../env/index.js";
import type { Lane } from "./connection-servers.js";
import { failedOutcome, failureIn, refusedOutcome } from "./failures.js";
import { askLean, type LeanScript, leanAcquire, leanRelease } from "./lean-calls.js";
import { acquireOutcome, termOf, tokenOf } from "./records.js";
import type { Arguments, Reply, ScriptCalls, ScriptName, Texts } from "./scripts-call.js";
import { Views } from "./views.js";
import type { Waiting } from "./wait-queue.js";
import { watchNotifications } from "./watch.js";
import type { Notifications } from "./watch-connection.js";

const DEFAULT_TIMEOUT_MS = 10_000;
const MOST_AWAITED_GRANTS = 10_000;

/** How requests become arguments of a script, and its replies outcomes. */
interface Call<Request, Outcome> {
  /** A script to try first; null if it does not suit the requests. */
  readonly lean?: LeanScript<Outcome> | null;
  argumentsOf(request: Request): Arguments;
  outcome(request: Request, reply: Reply, nowUs: number): Outcome;
}

export class RedisLeaseStore implements port.LeaseStore {
  readonly capabilities: port.Capabilities = {
    clock: "store",
    grants: "portable",
    ttl: { minMs: 100, maxMs: 2 ** 31 - 1, stepMs: 1 },
    queue: true,
    watch: "push",
    // A lease is free from the microsecond of its expiry; replies are rounded to milliseconds.
    epsilonMs: 1,
  };
  /**
   * Namespaces whose ended grants this client collects. Records of other namespaces expire by
   * themselves.
   */
  readonly #namespaces = new Set<string>();
  /** Lease ids of grants that were waited for. */
  readonly #awaited = new Recent<true>(MOST_AWAITED_GRANTS);
  readonly #closing = new AbortController();
  readonly #views: Views;

  constructor(
    readonly calls: ScriptCalls,
    readonly notifications: Notifications,
  ) {
    this.#views = new Views(calls);
  }

  acquire(
    requests: readonly port.AcquireRequest[],
    options?: port.CallOptions,
  ): Promise<port.AcquireOutcome[]> {
    for (const { namespace } of requests) this.#namespaces.add(namespace);
    const returnsReplaced = options?.returnReplaced ? "1" : "";
    return this.#decide("acquire", "general", requests, options, {
      lean: leanAcquire(requests, options),
      argumentsOf: ({ leaseId, holder, ttlMs, queueMs = 0, metadata = null }) => ({
        id: leaseId,
        common: [
          holder,
          `${ttlMs}`,
          `${Math.ceil(Math.min(queueMs, Number.MAX_SAFE_INTEGER))}`,
          JSON.stringify(metadata),
          returnsReplaced,
        ],
      }),
      outcome: (request, reply, nowUs) => {
        const outcome = acquireOutcome(request, reply, nowUs);
        if (request.queueMs && outcome.status === "acquired") {
          this.#awaited.set(request.leaseId, true);
        }
        return outcome;
      },
    });
  }

  renew(
    requests: readonly port.RenewRequest[],
    options?: port.CallOptions,
  ): Promise<port.RenewOutcome[]> {
    return this.#decide("renew", "control", requests, options, {
      argumentsOf: ({ leaseId, ttlMs }) => ({ id: leaseId, common: [`${ttlMs}`] }),
      outcome: (_, reply): port.RenewOutcome => {
        const [status, ...rest] = reply as Texts;
        return status === "renewed"
          ? { status, token: tokenOf(rest[0]), ...termOf(rest) }
          : { status: "lost", reason: rest[0] as "expired" | "revoked" | "taken" | "gone" };
      },
    });
  }

  release(
    requests: readonly port.ReleaseRequest[],
    options?: port.CallOptions,
  ): Promise<port.ReleaseOutcome[]> {
    return this.#decide("release", "control", requests, options, {
      lean: leanRelease(requests, this.#awaited),
      argumentsOf: ({ namespace, leaseId }) => ({
        id: leaseId,
        common: [this.calls.keys.channel(namespace)],
      }),
      outcome: (_, reply): port.ReleaseOutcome => ({
        status: reply === 1 ? "released" : "notHeld",
      }),
    });
  }

  revoke(
    requests: readonly port.RevokeRequest[],
    options?: port.CallOptions,
  ): Promise<port.RevokeOutcome[]> {
    return this.#decide("revoke", "general", requests, options, {
      argumentsOf: ({ namespace, expectedToken, free }) => ({
        id: "",
        common: [`${expectedToken ?? ""}`, free, this.calls.keys.channel(namespace)],
      }),
      outcome: (_, reply): port.RevokeOutcome => {
        const [status, token, freeInUs] = reply as Texts;
        return status === "revoked"
          ? { status, token: tokenOf(token), freeInMs: Math.ceil(Number(freeInUs) / 1_000) }
          : { status: status === "otherToken" ? status : "notHeld" };
      },
    });
  }

  async get(keys: readonly port.Key[]): Promise<(port.LeaseView | null)[]> {
    this.#assertOpen();
    return this.#views.get(keys);
  }

  async list(query: port.ListQuery): Promise<port.Page<port.LeaseView>> {
    this.#assertOpen();
    return this.#views.list(query);
  }

  /** The head of the queue first. */
  async waiters(key: port.Key): Promise<Waiting[]> {
    this.#assertOpen();
    return this.#views.waiters(key);
  }

  async *watch(
    namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<port.WatchEvent, void, void> {
    this.#assertOpen();
    const channel = this.calls.keys.channel(namespace);
    yield* watchNotifications(this.notifications, channel, namespace, [
      signal,
      this.#closing.signal,
    ]);
  }

  async collect(olderThanMs: number): Promise<number> {
    this.#assertOpen();
    let collected = 0;
    for (const namespace of this.#namespaces) {
      collected += await this.#views.collect(namespace, olderThanMs);
    }
    return collected;
  }

  /** Rejects further calls and ends watches. The opener closes the connections. */
  async close(): Promise<void> {
    this.#closing.abort();
  }

  #assertOpen(): void {
    if (this.#closing.signal.aborted) throw new ClosedError("the Redis lease store");
  }

  async #decide<Request extends port.Key, Outcome>(
    script: ScriptName,
    lane: Lane,
    requests: readonly Request[],
    { timeoutMs = DEFAULT_TIMEOUT_MS }: port.CallOptions = {},
    { lean, ...call }: Call<Request, Outcome>,
  ): Promise<(Outcome | port.Failed)[]> {
    if (this.#closing.signal.aborted) {
      return requests.map(() => failedOutcome(new ClosedError("the Redis lease store")));
    }
    const deadlineMs = this.calls.servers.env.clock.monotonic() + timeoutMs;
    if (!lean) return this.#decideAll(script, lane, requests, call, deadlineMs);
    const outcomes = await askLean(this.calls, lean, deadlineMs);
    if (!outcomes.includes(null)) return outcomes as (Outcome | port.Failed)[];
    const undecided = requests.filter((_, at) => outcomes[at] === null);
    const decided = await this.#decideAll(script, lane, undecided, call, deadlineMs);
    return outcomes.map((outcome) => outcome ?? (decided.shift() as Outcome | port.Failed));
  }

  async #decideAll<Request extends port.Key, Outcome>(
    script: ScriptName,
    lane: Lane,
    requests: readonly Request[],
    call: Call<Request, Outcome>,
    deadlineMs: number,
  ): Promise<(Outcome | port.Failed)[]> {
    const argumentsOf = (request: Request) => call.argumentsOf(request);
    const replies = await this.calls.run({ script, lane, requests, argumentsOf, deadlineMs });
    return zip(requests, replies).map(([request, replied]) => {
      if (replied instanceof Error) return failedOutcome(replied);
      const { reply, nowUs } = replied;
      const failure = failureIn(reply);
      return failure === null ? call.outcome(request, reply, nowUs) : refusedOutcome(failure);
    });
  }
}
