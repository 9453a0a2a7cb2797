/**
 * Taking a lease: one attempt, which settles every doubt before it answers.
 *
 * A call whose outcome is unknown is repeated with the same lease id, which answers the grant that the
 * first call may have made; whoever gives up sends release(leaseId), so that a grant nobody knows of
 * does not block the resource.
 *
 *   acquire ──▶ acquired ──▶ trust left? ──▶ HeldLease
 *      │            └── no (the answer took longer than the lease): release, try anew
 *      ├──▶ held    ──▶ by whom
 *      ├──▶ ended   ──▶ our id was granted and has ended already: a new id
 *      └──▶ failed  ──▶ the same id again, after a pause, within the budget
 */
import { type Env, jittered, newLeaseId, sleep } from "../env/index.js";
import type { Abort, Aborting } from "./aborting.js";
import type { BatchedStore } from "./batching.js";
import { type LeaseholdError, StoreUnavailableError } from "./errors.js";
import { type GrantActions, HeldLease } from "./held-lease.js";
import type { Hints } from "./hints.js";
import type { Keeper } from "./keeper.js";
import type { ResolvedOptions } from "./options.js";
import type { Capabilities, Grant, ReleaseOutcome, RenewOutcome } from "./port.js";
import { tellEnded, tellHeld } from "./told.js";
import { instant, trustFrom, trustLeftMs } from "./trust.js";
import type { Turns } from "./turns.js";

/** What a client shares among its leases. */
export interface LeaseContext {
  readonly capabilities: Capabilities;
  readonly batched: BatchedStore;
  readonly env: Env;
  readonly keeper: Keeper;
  readonly hints: Hints;
  readonly turns: Turns;
  readonly namespace: string;
  readonly holder: string;
  /** Every lease of the client that has not ended, by its resource. */
  readonly held: Map<string, HeldLease>;
  readonly aborting: Aborting;
  /** Aborts when the client closes. */
  readonly closing: AbortSignal;
  /** Releases under way that nobody waits for: the store stays open for them. */
  readonly releasing: Set<Promise<unknown>>;
}

/** Somebody else holds it. */
export interface Held {
  readonly holder: string;
  readonly remainingMs: number | null;
  /** How many wait before us, where the store queues. */
  readonly ahead?: number;
}

/** One attempt takes at most this long, and at most half of the ttl. */
const ATTEMPT_BUDGET_MS = 5_000;
const RETRY_MS = 25;

/** The lease id under which a caller asks, again and again while it waits: its place in line. */
export interface Ticket {
  leaseId: string;
}

/**
 * Takes the lease if it is free.
 * @param waiting how long the caller means to wait, for the store to note, and its ticket
 * @returns who holds it, when it is definitely somebody else's
 * @throws STORE_UNAVAILABLE when unknown; the reason when aborted
 */
export async function attempt(
  context: LeaseContext,
  resource: string,
  options: ResolvedOptions,
  abort: Abort,
  waiting?: { queueMs: number; ticket: Ticket },
): Promise<HeldLease | Held> {
  const { env, namespace, holder } = context;
  const { clock, random } = env;
  const giveUpAtMs = clock.monotonic() + Math.min(options.ttlMs / 2, ATTEMPT_BUDGET_MS);
  const ticket = waiting?.ticket ?? { leaseId: newLeaseId(random) };
  const { ttlMs, metadata } = options;
  const queueMs = waiting?.queueMs ?? 0;
  const request = {
    ...{ namespace, resource, holder, ttlMs, leaseId: ticket.leaseId },
    ...(metadata !== undefined && { metadata }),
    ...(queueMs > 0 && { queueMs }),
  };
  // Whether an earlier call had no answer, and whether one may have made a grant under the ticket
  // that nobody knows of: so it is from sending until its answer has been looked at.
  let unknown = false;
  let maybe = false;
  let answer: ReturnType<typeof context.batched.acquire> | undefined;
  try {
    for (let tries = 1; ; tries += 1) {
      const { leaseId } = ticket;
      const sent = instant(clock);
      const timeoutMs = Math.max(1, giveUpAtMs - sent.monotonicMs);
      maybe = true;
      answer = context.batched.acquire({ ...request, leaseId }, timeoutMs);
      const outcome = await abort.race(answer);
      // The answer may have come first, the abort before anybody has looked at it.
      abort.throwIfAborted();
      maybe = false;
      let failure: LeaseholdError;
      switch (outcome.status) {
        case "held":
          return heldBy(outcome);
        case "acquired": {
          const trust = trustFrom(sent, outcome.remainingMs, options);
          unknown = false;
          if (trustLeftMs(trust, clock) > 0) {
            const { remainingMs } = outcome;
            const token = context.capabilities.tokens === false ? null : outcome.token;
            return hold(context, options, { resource, holder, leaseId, sent, token, remainingMs });
          }
          giveUp(context, { namespace, resource, leaseId });
          ticket.leaseId = newLeaseId(random);
          failure = unavailable(
            `the store's answer for "${resource}" took longer than the lease (ttlMs = ${options.ttlMs}): raise ttlMs`,
            "none",
          );
          break;
        }
        case "ended":
          ticket.leaseId = newLeaseId(random);
          unknown = false;
          failure = unavailable(`a grant of "${resource}" ended before we heard of it`, "none");
          break;
        case "failed":
          unknown ||= outcome.applied === "maybe";
          maybe = unknown;
          failure =
            unknown && outcome.applied === "no"
              ? unavailable(outcome.error.message, "unknown", outcome.error)
              : outcome.error;
          if (!outcome.retryable) throw failure;
      }
      const pauseMs = jittered(random, RETRY_MS * Math.min(tries, 8), 0.5);
      if (clock.monotonic() + pauseMs >= giveUpAtMs) throw failure;
      await sleep(clock, pauseMs, { signal: abort.signal });
    }
  } finally {
    if (maybe) {
      giveUp(context, { namespace, resource, leaseId: ticket.leaseId }, answer);
      // The release may arrive at any time: nobody must ask under this id again.
      ticket.leaseId = newLeaseId(random);
    }
  }
}

function hold(
  context: LeaseContext,
  options: ResolvedOptions,
  granted: ConstructorParameters<typeof HeldLease>[0],
): HeldLease {
  const { resource, leaseId } = granted;
  const actions = new ActionsOnGrant(context, resource, leaseId, options.ttlMs);
  const lease = new HeldLease(granted, options, actions, context.keeper, context.env);
  context.held.set(resource, lease);
  tellHeld(context.env, lease);
  return lease;
}

/** No closures: a process may hold a hundred thousand. */
class ActionsOnGrant implements GrantActions {
  constructor(
    readonly context: LeaseContext,
    readonly resource: string,
    readonly leaseId: string,
    readonly ttlMs: number,
  ) {}

  renew(timeoutMs: number): Promise<RenewOutcome> {
    return this.context.batched.renew({ ...this.#grant(), ttlMs: this.ttlMs }, timeoutMs);
  }

  release(timeoutMs: number): Promise<ReleaseOutcome> {
    return tracked(this.context.releasing, this.context.batched.release(this.#grant(), timeoutMs));
  }

  ended(lease: HeldLease): void {
    const { held, hints } = this.context;
    if (held.get(lease.resource) === lease) held.delete(lease.resource);
    hints.changed(lease.resource);
    tellEnded(this.context.env, lease);
  }

  #grant(): Grant {
    const { resource, leaseId } = this;
    return { namespace: this.context.namespace, resource, leaseId };
  }
}

function heldBy({ holder, remainingMs, ahead }: Held): Held {
  return { holder, remainingMs, ...(ahead !== undefined && { ahead }) };
}

function unavailable(message: string, outcome: "none" | "unknown", cause?: unknown) {
  return new StoreUnavailableError(message, { outcome, cause });
}

/** Frees a grant that nobody will use, once the call that may have made it has returned. */
export function giveUp(
  context: LeaseContext,
  grant: Grant,
  after: Promise<unknown> = Promise.resolve(),
) {
  const given = after
    .then(() => context.batched.release(grant, ATTEMPT_BUDGET_MS))
    .then((outcome) => {
      if (outcome.status !== "failed") return;
      const { resource } = grant;
      context.env.logger.warn({ err: outcome.error, resource }, "gave up; not confirmed");
    });
  void tracked(context.releasing, given);
}

/** In the set until it is settled. */
export function tracked<T>(set: Set<Promise<unknown>>, promise: Promise<T>): Promise<T> {
  set.add(promise);
  const settled = () => set.delete(promise);
  promise.then(settled, settled);
  return promise;
}
