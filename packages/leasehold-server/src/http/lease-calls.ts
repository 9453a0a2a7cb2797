/**
 * The only way for routes to change leases. It batches calls, applies the request's budget, emits lease
 * events, and passes replaced grants to the history.
 */
import type { Env, ErrorCode, LeaseState, LeaseStore, LeaseView } from "leasehold";
import type { By, Control } from "leasehold/internal";
import {
  type AcquireOutcome,
  type AcquireRequest,
  Batcher,
  batched,
  type Failed,
  grantIdOf,
  Recent,
  type ReleaseOutcome,
  type ReleaseRequest,
  type RenewOutcome,
  type RenewRequest,
  type RevokeRequest,
  SerialExecutor,
} from "leasehold/internal";
import { callerOf, checkResources } from "./auth/caller.js";
import type { Contention } from "./console/contention.js";
import { mayBeAnothers, refuseIfAnothers, refuseIfPaused } from "./lease-refusals.js";
import type { Pauses } from "./operations/pauses.js";
import { type Revoked, revokeAudited } from "./operations/revoking.js";
import type { LeaseCounts } from "./quotas/lease-counts.js";
import type { LeaseWaiters } from "./quotas/lease-waiters.js";
import type { Budget, RequestScope } from "./request.js";

/** The request that caused an event, and the resource. */
interface Cause {
  readonly requestId: string;
  /** `key:<id>`; undefined without a key. */
  readonly actor?: string | undefined;
  readonly resource: string;
  /** From the call of this operation to its outcome, the wait for the batch before it included. */
  readonly tookMs: number;
}

/** The tokens of a tenant's grants, as far as they are remembered. */
type Tokens = Pick<Recent<number>, "get" | "set">;

/** The most grants whose tokens are remembered. */
const REMEMBERED = 10_000;

/** An event of one lease in this instance. It never contains a lease id. */
export type LeaseEvent =
  /** Also emitted for a repeated request, which grants nothing new. */
  | ({
      readonly type: "acquired";
      readonly holder: string;
      /** Public name of the grant, the same in all its events and in lists. */
      readonly grantId: string;
      readonly token: number;
      readonly ttlMs: number;
      /** The grant that it replaced. The expiry of a grant is reported only here. */
      readonly replaced: Replaced | null;
    } & Cause)
  /** An acquire found the resource held. */
  | ({
      readonly type: "held";
      readonly holder: string;
      /** Grant id of the refused request. */
      readonly asked: string;
      readonly heldBy: string;
      /** Grant id of the current grant, if the store reports it. */
      readonly grantId: string | null;
      /** Token of the current grant; null if this instance has not seen it. */
      readonly token: number | null;
      /** How long the waiter keeps its queue position without polling; null: it does not wait. */
      readonly queueMs: number | null;
      /** Number of waiters ahead of it, if the store has a wait queue. */
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
      /** Null if this instance has not seen the grant. */
      readonly token: number | null;
      readonly reason: "expired" | "revoked" | "taken" | "gone";
    } & Cause)
  | ({
      readonly type: "released";
      readonly grantId: string;
      /** Null if this instance has not seen the grant. */
      readonly token: number | null;
    } & Cause)
  /** A release of a lease that was not held. Waiters also release to leave the wait queue. */
  | ({ readonly type: "notHeld"; readonly grantId: string } & Cause)
  | ({
      readonly type: "revoked";
      readonly token: number;
      readonly free: RevokeRequest["free"];
    } & Cause)
  /** The store did not apply the operation, or its outcome is unknown. */
  | ({
      readonly type: "failed";
      readonly operation: "acquire" | "renew" | "release" | "revoke";
      /** Null for a revocation, which names no grant. */
      readonly grantId: string | null;
      readonly applied: Failed["applied"];
      readonly code: ErrorCode;
      readonly message: string;
    } & Cause);

/** @param namespace of the lease */
export type LeaseListener = (event: LeaseEvent, namespace: string) => void;

interface Replaced {
  readonly holder: string;
  readonly grantId: string;
  readonly token: number;
  readonly state: Exclude<LeaseState, "live">;
}

type InNamespace<Request> = Omit<Request, "namespace">;

/**
 * The port's operations that change leases, for one HTTP request. They never reject. `spentMs` is what has passed of the
 * request's budget since the calls were made; default 0.
 */
export interface LeaseCalls {
  readonly acquire: (
    request: InNamespace<AcquireRequest>,
    spentMs?: number,
  ) => Promise<AcquireOutcome>;
  readonly renew: (request: InNamespace<RenewRequest>, spentMs?: number) => Promise<RenewOutcome>;
  readonly release: (
    request: InNamespace<ReleaseRequest>,
    spentMs?: number,
  ) => Promise<ReleaseOutcome>;
  readonly revoke: (request: InNamespace<RevokeRequest>, by: By) => Promise<Revoked>;
  /** Runs a call of another port that releases the lease where its outcome is `recorded`. */
  readonly releasedBy: <Outcome extends { readonly status: string }>(
    request: InNamespace<ReleaseRequest>,
    call: (timeoutMs: number) => Promise<Outcome>,
  ) => Promise<Outcome>;
}

export interface LeaseCallsOptions {
  readonly env: Env;
  readonly leases: LeaseStore;
  readonly counts: Pick<LeaseCounts, "acquired" | "refused" | "released" | "revoked">;
  readonly leaseWaiters: Pick<LeaseWaiters, "note">;
  readonly pauses: Pick<Pauses, "covers">;
  readonly contention: Pick<Contention, "note">;
  /** Audits revocations; undefined: they appear only in the log. */
  readonly control: Control | undefined;
  readonly onLeaseEvent?: LeaseListener | undefined;
  /** Receives ended grants that new ones replaced. */
  readonly onReplaced?: ((grant: LeaseView) => void) | undefined;
}

/** A lease that a request names. */
export interface Named {
  readonly resource: string;
}

/**
 * @returns a function that creates the calls of one request. It throws FORBIDDEN unless the caller may
 *   use all named resources. It reads the request's budget once, so call it right before the first
 *   change: a batch is sent as a whole or refused with BUDGET_SPENT.
 */
export function newLeaseCalls(options: LeaseCallsOptions) {
  const { env, leases, counts, leaseWaiters, pauses, contention, control } = options;
  const { onReplaced } = options;
  const returnReplaced = onReplaced !== undefined || options.onLeaseEvent !== undefined;
  const lanes = batched(leases, env.clock, { returnReplaced }, env.telemetry);
  // Also combines the revocations of one request into one call.
  const revocations = new Batcher(leases.revoke.bind(leases), env.clock, env.telemetry);
  const emit = options.onLeaseEvent;
  const remembered = new Recent<number>(REMEMBERED);

  return (scope: RequestScope, budget: Budget, named: readonly Named[]): LeaseCalls => {
    const caller = callerOf(scope);
    const { namespace } = caller;
    // Callers choose their lease ids, and so the ids of their grants.
    const nameOf = (grantId: string) => JSON.stringify([namespace, grantId]);
    const tokens: Tokens = {
      get: (grantId) => remembered.get(nameOf(grantId)),
      set: (grantId, token) => remembered.set(nameOf(grantId), token),
    };
    const actor = caller.keyId === null ? undefined : caller.actor;
    checkResources(
      caller,
      named.map(({ resource }) => resource),
    );
    const timeoutMs = budget.storeMs();
    const leftMs = (spentMs: number) => Math.max(0, timeoutMs - spentMs);
    const requestId = scope.get("requestId");
    // One at a time: the entries of the audit have a single order anyway.
    const audited = new SerialExecutor();
    const causing = ({ resource }: Named) => {
      const sinceMs = env.clock.monotonic();
      return (): Cause => ({
        requestId,
        actor,
        resource,
        tookMs: env.clock.monotonic() - sinceMs,
      });
    };
    return {
      async acquire(request, spentMs = 0) {
        const cause = causing(request);
        const asked = { namespace, ...request };
        const paused = pauses.covers(asked);
        const answer =
          (paused && (await refuseIfPaused(paused, leases, asked))) ||
          (await lanes.acquire(asked, leftMs(spentMs), named));
        const outcome = mayBeAnothers(answer, leases, asked)
          ? ((await refuseIfAnothers(leases, asked)) ?? answer)
          : answer;
        const isHeld = outcome.status === "held";
        if (isHeld) contention.note("held", namespace, request.resource);
        if (outcome.status !== "failed") leaseWaiters.note(namespace, request, isHeld);
        const isAcquired = outcome.status === "acquired";
        const replaced = isAcquired ? outcome.replaced : undefined;
        if (isAcquired) counts.acquired(asked, outcome.token, Boolean(replaced));
        else counts.refused(namespace);
        if (replaced && replaced.state !== "live") onReplaced?.(replaced);
        const event = emit && acquireEvent(request, outcome, cause(), tokens);
        if (event) emit(event, namespace);
        return outcome;
      },
      async renew(request, spentMs = 0) {
        const cause = causing(request);
        const outcome = await lanes.renew({ namespace, ...request }, leftMs(spentMs), named);
        if (outcome.status === "lost") contention.note("lost", namespace, request.resource);
        emit?.(renewEvent(request, outcome, cause(), tokens), namespace);
        return outcome;
      },
      async release(request, spentMs = 0) {
        const cause = causing(request);
        const outcome = await lanes.release({ namespace, ...request }, leftMs(spentMs), named);
        if (outcome.status === "released") counts.released({ namespace, ...request });
        if (outcome.status !== "failed") leaseWaiters.note(namespace, request, false);
        emit?.(releaseEvent(request, outcome, cause(), tokens), namespace);
        return outcome;
      },
      async releasedBy(request, call) {
        const cause = causing(request);
        const outcome = await call(timeoutMs);
        if (outcome.status === "recorded") {
          counts.released({ namespace, ...request });
          emit?.(releaseEvent(request, { status: "released" }, cause(), tokens), namespace);
        }
        return outcome;
      },
      async revoke(request, by) {
        const cause = causing(request);
        const asked = { namespace, ...request };
        const during = { budget, signal: scope.req.raw.signal };
        const revoked = control
          ? await audited.run(namespace, () => revokeAudited(control, env, asked, by, during))
          : { outcome: await revocations.submit(asked, timeoutMs, named), entry: null };
        if (revoked.outcome.status === "revoked") counts.revoked(asked, revoked.outcome.token);
        const event = emit && revokeEvent(request, revoked.outcome, cause());
        if (event) emit(event, namespace);
        return revoked;
      },
    };
  };
}

function acquireEvent(
  { leaseId, holder, queueMs = 0 }: InNamespace<AcquireRequest>,
  outcome: AcquireOutcome,
  cause: Cause,
  tokens: Tokens,
): LeaseEvent | undefined {
  switch (outcome.status) {
    case "acquired": {
      const { token, ttlMs, replaced } = outcome;
      const was = replaced ? replacedOf(replaced) : null;
      const grantId = grantIdOf(leaseId);
      tokens.set(grantId, token);
      return { type: "acquired", ...cause, holder, grantId, token, ttlMs, replaced: was };
    }
    case "held": {
      const { holder: heldBy, grantId, ahead = null } = outcome;
      const waits = { queueMs: queueMs > 0 ? queueMs : null, ahead };
      const asked = grantIdOf(leaseId);
      const token = (grantId === null ? undefined : tokens.get(grantId)) ?? null;
      return { type: "held", ...cause, holder, asked, heldBy, grantId, token, ...waits };
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
  { leaseId }: InNamespace<RenewRequest>,
  outcome: RenewOutcome,
  cause: Cause,
  tokens: Tokens,
): LeaseEvent {
  const grantId = grantIdOf(leaseId);
  if (outcome.status === "failed") return failedEvent("renew", cause, grantId, outcome);
  if (outcome.status === "lost") {
    return {
      type: "lost",
      ...cause,
      grantId,
      token: tokens.get(grantId) ?? null,
      reason: outcome.reason,
    };
  }
  const { token, ttlMs } = outcome;
  tokens.set(grantId, token);
  return { type: "renewed", ...cause, grantId, token, ttlMs };
}

function releaseEvent(
  { leaseId }: InNamespace<ReleaseRequest>,
  outcome: ReleaseOutcome,
  cause: Cause,
  tokens: Tokens,
): LeaseEvent {
  const grantId = grantIdOf(leaseId);
  if (outcome.status === "failed") return failedEvent("release", cause, grantId, outcome);
  if (outcome.status === "notHeld") return { type: "notHeld", ...cause, grantId };
  return { type: "released", ...cause, grantId, token: tokens.get(grantId) ?? null };
}

function revokeEvent(
  { free }: InNamespace<RevokeRequest>,
  outcome: Revoked["outcome"],
  cause: Cause,
): LeaseEvent | undefined {
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
