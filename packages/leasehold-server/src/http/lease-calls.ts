/**
 * The one way in which routes act on leases: batched, within the request's budget, told to whoever
 * listens, and with what a grant replaced handed to the history.
 */
import type { Context } from "hono";
import type { Env, ErrorCode, LeaseState, LeaseStore, LeaseView } from "leasehold";
import type { By, Control } from "leasehold/internal";
import {
  type AcquireOutcome,
  type AcquireRequest,
  asStoreError,
  Batcher,
  batched,
  type Failed,
  grantIdOf,
  queue,
  type ReleaseOutcome,
  type ReleaseRequest,
  type RenewOutcome,
  type RenewRequest,
  type RevokeOutcome,
  type RevokeRequest,
  SerialExecutor,
  telling,
} from "leasehold/internal";
import { callerOf, checkResources } from "./auth/caller.js";
import type { Contention } from "./console/contention.js";
import type { Quotas } from "./limits/quotas.js";
import type { Pauses } from "./operations/pauses.js";
import { type Revoked, revokeAudited } from "./operations/revoking.js";
import type { AppEnv, Budget } from "./request.js";

/** Which request did it, to what. */
interface Cause {
  readonly requestId: string;
  readonly resource: string;
}

/** One thing that happened to one lease through this instance. Never with a lease id. */
export type LeaseEvent =
  /** Also for the answer to a repeated request, which grants nothing new. */
  | ({
      readonly type: "acquired";
      readonly holder: string;
      /** Public name of the grant: the same in all events about it, and in lists. */
      readonly grantId: string;
      readonly token: number;
      readonly ttlMs: number;
      /** The grant whose place it took: one that ran out says so here only. */
      readonly replaced: Replaced | null;
    } & Cause)
  /** Somebody asked for what another one holds. */
  | ({
      readonly type: "held";
      readonly holder: string;
      /** Of the grant that was asked for. */
      readonly asked: string;
      readonly heldBy: string;
      /** The grant in the way, where the store can tell. */
      readonly grantId: string | null;
      /** How long it said it waits, until it asks again; null: it does not. */
      readonly queueMs: number | null;
      /** How many wait before it, where the store queues. */
      readonly ahead: number | null;
    } & Cause)
  | ({
      readonly type: "renewed";
      readonly grantId: string;
      readonly token: number;
      readonly ttlMs: number;
    } & Cause)
  /** A renewal was refused. */
  | ({
      readonly type: "lost";
      readonly grantId: string;
      readonly reason: "expired" | "revoked" | "taken" | "gone";
    } & Cause)
  | ({ readonly type: "released"; readonly grantId: string } & Cause)
  /** A release of what was not held, or not any more; also how those who waited say that they do not. */
  | ({ readonly type: "notHeld"; readonly grantId: string } & Cause)
  | ({
      readonly type: "revoked";
      readonly token: number;
      readonly free: RevokeRequest["free"];
    } & Cause)
  /** The store did not do it, or nobody knows. */
  | ({
      readonly type: "failed";
      readonly operation: "acquire" | "renew" | "release" | "revoke";
      /** Null for a revocation, which names none. */
      readonly grantId: string | null;
      readonly applied: Failed["applied"];
      readonly code: ErrorCode;
      readonly message: string;
    } & Cause);

/** @param namespace whose lease it is */
export type LeaseListener = (event: LeaseEvent, namespace: string) => void;

interface Replaced {
  readonly holder: string;
  readonly grantId: string;
  readonly token: number;
  readonly state: Exclude<LeaseState, "live">;
}

type InNamespace<Request> = Omit<Request, "namespace">;

/** The changes of the port for one request of HTTP; never reject. */
export interface LeaseCalls {
  readonly acquire: (request: InNamespace<AcquireRequest>) => Promise<AcquireOutcome>;
  readonly renew: (request: InNamespace<RenewRequest>) => Promise<RenewOutcome>;
  readonly release: (request: InNamespace<ReleaseRequest>) => Promise<ReleaseOutcome>;
  readonly revoke: (request: InNamespace<RevokeRequest>, by: By) => Promise<Revoked>;
}

export interface LeaseCallsOptions {
  readonly env: Env;
  readonly leases: LeaseStore;
  readonly quotas: Pick<Quotas, "note">;
  readonly pauses: Pick<Pauses, "covers">;
  readonly contention: Pick<Contention, "note">;
  /** Where revocations are acts, with an entry in the audit; undefined: they are known to the log alone. */
  readonly control: Control | undefined;
  readonly onLeaseEvent?: LeaseListener | undefined;
  /** Given the ended grants that new ones replaced. */
  readonly onReplaced?: ((grant: LeaseView) => void) | undefined;
}

/** What a request is about. */
export interface Named {
  readonly resource: string;
}

/**
 * @returns what makes the calls for a request about what it names: all of that must be the caller's,
 *   or it throws FORBIDDEN and nothing is done. It reads the request's budget then, once, so make it
 *   right before its first call: a batch is sent as a whole, or refused with BUDGET_SPENT.
 */
export function newLeaseCalls(options: LeaseCallsOptions) {
  const { env, leases, quotas, pauses, contention, control, onReplaced } = options;
  const tellReplaced = onReplaced !== undefined || options.onLeaseEvent !== undefined;
  const lanes = batched(leases, env.clock, { tellReplaced }, env.telemetry);
  // Also gathers the revocations of one request into one call.
  const revocations = new Batcher(leases.revoke.bind(leases), env.clock, env.telemetry);
  const tell = options.onLeaseEvent && telling(options.onLeaseEvent);

  return (context: Context<AppEnv>, budget: Budget, named: readonly Named[]): LeaseCalls => {
    const caller = callerOf(context);
    const { namespace } = caller;
    checkResources(
      caller,
      named.map(({ resource }) => resource),
    );
    const timeoutMs = budget.storeMs();
    const requestId = context.get("requestId");
    // One act after the other: entries of the audit have one order anyway.
    const acts = new SerialExecutor();
    return {
      async acquire(request) {
        const asked = { namespace, ...request };
        const paused = pauses.covers(asked);
        const outcome =
          (paused && (await heldBack(paused, leases, asked))) ||
          (await lanes.acquire(asked, timeoutMs));
        if (outcome.status === "held") contention.note("held", namespace, request.resource);
        // Room for it was taken before.
        if (outcome.status !== "acquired") quotas.note("leases", namespace, -1);
        const replaced = outcome.status === "acquired" ? outcome.replaced : undefined;
        if (replaced && replaced.state !== "live") onReplaced?.(replaced);
        const event = tell && acquireEvent(request, outcome, requestId);
        if (event) tell(event, namespace);
        return outcome;
      },
      async renew(request) {
        const outcome = await lanes.renew({ namespace, ...request }, timeoutMs);
        if (outcome.status === "lost") contention.note("lost", namespace, request.resource);
        tell?.(renewEvent(request, outcome, requestId), namespace);
        return outcome;
      },
      async release(request) {
        const outcome = await lanes.release({ namespace, ...request }, timeoutMs);
        if (outcome.status === "released") quotas.note("leases", namespace, -1);
        tell?.(releaseEvent(request, outcome, requestId), namespace);
        return outcome;
      },
      async revoke(request, by) {
        const asked = { namespace, ...request };
        const revoked = control
          ? await acts.run(namespace, () => revokeAudited(control, env, asked, by, budget))
          : { outcome: await revocations.submit(asked, timeoutMs), entry: null };
        const event = tell && revokeEvent(request, revoked.outcome, requestId);
        if (event) tell(event, namespace);
        return revoked;
      },
    };
  };
}

/**
 * What is paused is held, but for whoever repeats the request that it was granted by; null: it is not
 * paused, as far as this server has to say.
 */
async function heldBack(
  paused: boolean | Promise<boolean>,
  leases: Pick<LeaseStore, "get">,
  { namespace, resource, leaseId }: AcquireRequest,
): Promise<AcquireOutcome | null> {
  try {
    if (!(await paused)) return null;
    const [last] = await leases.get([{ namespace, resource }]);
    if (last?.grantId === grantIdOf(leaseId)) return null;
    return { status: "held", holder: queue.PAUSED_HOLDER, grantId: null, remainingMs: null };
  } catch (cause) {
    const error = asStoreError(cause, "no");
    return { status: "failed", applied: "no", retryable: error.retryable, error };
  }
}

function acquireEvent(
  { resource, leaseId, holder, queueMs = 0 }: InNamespace<AcquireRequest>,
  outcome: AcquireOutcome,
  requestId: string,
): LeaseEvent | undefined {
  const cause = { requestId, resource };
  switch (outcome.status) {
    case "acquired": {
      const { token, ttlMs, replaced } = outcome;
      const was = replaced ? replacedOf(replaced) : null;
      const grantId = grantIdOf(leaseId);
      return { type: "acquired", ...cause, holder, grantId, token, ttlMs, replaced: was };
    }
    case "held": {
      const { holder: heldBy, grantId, ahead = null } = outcome;
      const waits = { queueMs: queueMs > 0 ? queueMs : null, ahead };
      const asked = grantIdOf(leaseId);
      return { type: "held", ...cause, holder, asked, heldBy, grantId, ...waits };
    }
    case "failed":
      return failedEvent("acquire", cause, grantIdOf(leaseId), outcome);
    case "ended":
      return undefined;
  }
}

function replacedOf({ holder, grantId, token, state }: LeaseView): Replaced | null {
  return state === "live" ? null : { holder, grantId, token, state };
}

function renewEvent(
  { resource, leaseId }: InNamespace<RenewRequest>,
  outcome: RenewOutcome,
  requestId: string,
): LeaseEvent {
  const cause = { requestId, resource };
  const grantId = grantIdOf(leaseId);
  if (outcome.status === "failed") return failedEvent("renew", cause, grantId, outcome);
  if (outcome.status === "lost") {
    return { type: "lost", ...cause, grantId, reason: outcome.reason };
  }
  const { token, ttlMs } = outcome;
  return { type: "renewed", ...cause, grantId, token, ttlMs };
}

function releaseEvent(
  { resource, leaseId }: InNamespace<ReleaseRequest>,
  outcome: ReleaseOutcome,
  requestId: string,
): LeaseEvent {
  const cause = { requestId, resource };
  const grantId = grantIdOf(leaseId);
  if (outcome.status === "failed") return failedEvent("release", cause, grantId, outcome);
  return { type: outcome.status, ...cause, grantId };
}

function revokeEvent(
  { resource, free }: InNamespace<RevokeRequest>,
  outcome: RevokeOutcome,
  requestId: string,
): LeaseEvent | undefined {
  const cause = { requestId, resource };
  if (outcome.status === "failed") return failedEvent("revoke", cause, null, outcome);
  if (outcome.status !== "revoked") return undefined;
  return { type: "revoked", ...cause, token: outcome.token, free };
}

function failedEvent(
  operation: Extract<LeaseEvent, { type: "failed" }>["operation"],
  cause: Cause,
  grantId: string | null,
  { applied, error: { code, message } }: Failed,
): LeaseEvent {
  return { type: "failed", operation, ...cause, grantId, applied, code, message };
}
