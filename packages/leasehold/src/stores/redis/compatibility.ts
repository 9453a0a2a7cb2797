/**
 * Locks in the formats of node-redlock and redis-semaphore: one string under one key, which expires.
 * The client that set the key holds the lock; the others find the key taken.
 *
 *   redlock          key RESOURCE         32 hex digits
 *   redis-semaphore  key mutex:RESOURCE   a UUID
 *   here             either key           leasehold:LEASE:HOLDER, revoked: leasehold-revoked:LEASE:HOLDER
 *
 * Every client compares its own text before it extends or deletes a key. So Leasehold's text may differ
 * from theirs, and names the holder. A deleted key leaves nothing behind: there is no token, no record
 * of ended grants, and an acquire that arrives after its own release grants again.
 */

import { eventsUntil, grantIdOf, invariant, zip } from "../../env/index.js";
import type * as port from "../../lease/index.js";
import { ClosedError, InvalidOptionError, NoTokenError } from "../../lease/index.js";
import type { COMPATIBILITY_SCRIPTS } from "./compatibility-scripts.js";
import type { Format } from "./connection-address.js";
import type { Lane, Script, Servers } from "./connection-servers.js";
import { failedOutcome, failureIn, refusedOutcome } from "./failures.js";
import { byGroup } from "./scripts-call.js";

type ScriptName = keyof typeof COMPATIBILITY_SCRIPTS;

const DEFAULT_TIMEOUT_MS = 10_000;
const NAMESPACE = "default";
/** The port requires a number; `capabilities.tokens` says that it means nothing. */
const NO_TOKEN = 0;

type Reply = readonly (string | number)[];

export class CompatibilityLeaseStore implements port.LeaseStore {
  readonly capabilities: port.Capabilities = {
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
    readonly scripts: Readonly<Record<ScriptName, Script>>,
    readonly format: Format,
  ) {}

  acquire(
    requests: readonly port.AcquireRequest[],
    options?: port.CallOptions,
  ): Promise<port.AcquireOutcome[]> {
    return this.#decide("acquire", "general", requests, options, {
      refuse: ({ metadata }) =>
        metadata === undefined
          ? null
          : new InvalidOptionError("metadata", `cannot be stored in the format of ${this.format}`),
      args: ({ leaseId, holder, ttlMs }) => [leaseId, holder, `${ttlMs}`],
      outcome: ({ ttlMs }, [status, ...rest]): port.AcquireOutcome => {
        if (status === "acquired") {
          const remainingMs = Number(rest[0]);
          const term = { ttlMs: Math.max(ttlMs, remainingMs), remainingMs, expiresAt: null };
          return { status, token: NO_TOKEN, ...term };
        }
        if (status !== "held") return { status: "ended" };
        const [holder, held, left] = rest;
        const remainingMs = leftOf(left);
        const grantId = grantIdOf(String(held));
        return { status, holder: String(holder), grantId, remainingMs };
      },
    });
  }

  renew(
    requests: readonly port.RenewRequest[],
    options?: port.CallOptions,
  ): Promise<port.RenewOutcome[]> {
    return this.#decide("renew", "control", requests, options, {
      args: ({ leaseId, ttlMs }) => [leaseId, `${ttlMs}`],
      outcome: ({ ttlMs }, [status, what]): port.RenewOutcome => {
        if (status !== "renewed") {
          return { status: "lost", reason: what as "revoked" | "taken" | "gone" };
        }
        const term = { ttlMs, remainingMs: Number(what), expiresAt: null };
        return { status, token: NO_TOKEN, ...term };
      },
    });
  }

  release(
    requests: readonly port.ReleaseRequest[],
    options?: port.CallOptions,
  ): Promise<port.ReleaseOutcome[]> {
    return this.#decide("release", "control", requests, options, {
      args: ({ leaseId }) => [leaseId],
      outcome: (_, [status]): port.ReleaseOutcome => ({
        status: status === "released" ? status : "notHeld",
      }),
    });
  }

  revoke(
    requests: readonly port.RevokeRequest[],
    options?: port.CallOptions,
  ): Promise<port.RevokeOutcome[]> {
    return this.#decide("revoke", "general", requests, options, {
      refuse: ({ resource, expectedToken }) =>
        expectedToken === undefined ? null : new NoTokenError(resource),
      args: ({ free }) => [free],
      outcome: (_, [status, left]): port.RevokeOutcome =>
        status === "revoked"
          ? { status, token: NO_TOKEN, freeInMs: Number(left) }
          : { status: "notHeld" },
    });
  }

  async get(keys: readonly port.Key[]): Promise<(port.LeaseView | null)[]> {
    this.#assertOpen();
    const outcomes = await this.#decide("view", "general", keys, undefined, {
      args: () => [],
      outcome: (key, reply) => ({ status: "view", view: viewOf(key, reply) }),
    });
    return outcomes.map((outcome) => {
      if ("error" in outcome) throw outcome.error;
      return outcome.view;
    });
  }

  /** Every key may be a lock, because the locks of other clients look like any string. */
  async list(_query: port.ListQuery): Promise<port.Page<port.LeaseView>> {
    this.#assertOpen();
    const problem = `${this.format} keeps no list of locks: read a lock by its name`;
    throw new InvalidOptionError("format", problem);
  }

  async *watch(
    _namespace: string,
    { signal }: { signal: AbortSignal },
  ): AsyncGenerator<port.WatchEvent, void, void> {
    this.#assertOpen();
    // Redis publishes no notification when other clients release a lock.
    yield* eventsUntil<port.WatchEvent>([signal, this.#closing.signal], (queue) => {
      queue.resync();
      return () => {};
    });
  }

  /** Ended grants leave nothing to collect. */
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

  #keyOf({ resource }: port.Key): string {
    const { prefix } = this.servers.driver;
    return `${prefix}${this.format === "redlock" ? "" : "mutex:"}${resource}`;
  }

  async #decide<Request extends port.Key, Outcome>(
    script: ScriptName,
    lane: Lane,
    requests: readonly Request[],
    { timeoutMs = DEFAULT_TIMEOUT_MS }: port.CallOptions = {},
    call: {
      refuse?(request: Request): Error | null;
      args(request: Request): readonly string[];
      outcome(request: Request, reply: Reply): Outcome;
    },
  ): Promise<(Outcome | port.Failed)[]> {
    const { servers } = this;
    const deadlineMs = servers.env.clock.monotonic() + timeoutMs;
    const outcomes = new Array<Outcome | port.Failed>(requests.length);
    const accepted: { readonly index: number; readonly request: Request }[] = [];
    for (const [index, request] of requests.entries()) {
      const problem = this.#refusalOf(request) ?? call.refuse?.(request) ?? null;
      if (problem) outcomes[index] = failedOutcome(problem);
      else accepted.push({ index, request });
    }
    const decide = async (batch: readonly Request[]): Promise<(Outcome | port.Failed)[]> => {
      const keys = batch.map((request) => this.#keyOf(request));
      const args = [this.format, ...batch.flatMap((request) => call.args(request))];
      try {
        const replies = await servers.run(lane, this.scripts[script], keys, args, deadlineMs);
        invariant(Array.isArray(replies), "a reply per request");
        return zip(batch, replies as Reply[]).map(([request, reply]) => {
          const failure = failureIn(reply);
          return failure === null ? call.outcome(request, reply) : refusedOutcome(failure);
        });
      } catch (error) {
        return batch.map(() => failedOutcome(error));
      }
    };
    const keyOf = (request: Request) => this.#keyOf(request);
    const decided = await byGroup(
      servers,
      accepted.map(({ request }) => request),
      keyOf,
      decide,
    );
    for (const [{ index }, outcome] of zip(accepted, decided)) outcomes[index] = outcome;
    return outcomes;
  }

  /** The keys of these formats have no namespace, so two namespaces would share them. */
  #refusalOf({ namespace }: port.Key): Error | null {
    if (this.#closing.signal.aborted) return new ClosedError("the Redis lease store");
    if (namespace === NAMESPACE) return null;
    return new InvalidOptionError("namespace", `must be "${NAMESPACE}" with format=${this.format}`);
  }
}

/** Another client's lock may have no expiry. */
function leftOf(left: string | number | undefined): number | null {
  return Number(left) < 0 ? null : Number(left);
}

function viewOf(key: port.Key, [leaseId, holder, state, left]: Reply): port.LeaseView | null {
  if (leaseId === undefined) return null;
  const { namespace, resource } = key;
  const remainingMs = leftOf(left) ?? 0;
  return {
    namespace,
    resource,
    holder: String(holder),
    grantId: grantIdOf(String(leaseId)),
    token: NO_TOKEN,
    state: state === "revoked" ? state : "live",
    ttlMs: remainingMs,
    remainingMs: state === "revoked" ? 0 : remainingMs,
    ...(state === "revoked" && remainingMs > 0 && { freeInMs: remainingMs }),
    grantedAt: null,
    renewedAt: null,
    expiresAt: null,
    metadata: null,
  };
}
