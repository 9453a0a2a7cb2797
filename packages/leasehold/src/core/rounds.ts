/**
 * Batches for stores whose statement can decide each key once. The same key may stand several times
 * in a batch and is then decided in order, so the batch is sent in rounds:
 *
 *   requests   a1 b1 a2 c1 a3
 *   round 1    a1 b1    c1        the first of each key
 *   round 2          a2           unless a1's outcome says already what becomes of it
 *   round 3                a3
 */
import { grantIdOf, zip } from "../env/index.js";
import { StoreUnavailableError } from "./errors.js";
import type {
  AcquireOutcome,
  AcquireRequest,
  Failed,
  ReleaseOutcome,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
} from "./port.js";

/**
 * What becomes of a request for a key on which the store has just decided another one; null if only
 * the store can say.
 */
export type Decide<Request, Outcome> = (
  request: Request,
  before: { readonly request: Request; readonly outcome: Outcome },
) => Outcome | null;

/**
 * Sends a batch in rounds without repeated keys. Behind a request that failed, the others for its
 * key fail without being sent: what state they would meet is not known.
 * @param send one outcome per request, in order
 * @returns one outcome per request, in order
 */
export async function inRounds<Request, Outcome extends { readonly status: string }>(
  requests: readonly Request[],
  keyOf: (request: Request) => string,
  send: (round: readonly Request[]) => Promise<readonly (Outcome | Failed)[]>,
  decide: Decide<Request, Outcome> = () => null,
): Promise<(Outcome | Failed)[]> {
  const outcomes = new Array<Outcome | Failed>(requests.length);
  let waiting = requests.map((request, index) => ({ request, index, key: keyOf(request) }));
  while (waiting.length > 0) {
    const round = new Map<string, (typeof waiting)[number]>();
    for (const entry of waiting) if (!round.has(entry.key)) round.set(entry.key, entry);
    const first = [...round.values()];
    const answers = await send(first.map(({ request }) => request));
    const answered = new Map(zip(first, answers));
    for (const [{ index }, outcome] of answered) outcomes[index] = outcome;

    const next: typeof waiting = [];
    // Behind a request that needs the store, the others of its key keep their order.
    const open = new Set<string>();
    for (const entry of waiting) {
      const before = round.get(entry.key);
      if (!before || before === entry) continue;
      const earlier = open.has(entry.key) ? undefined : answered.get(before);
      const outcome = earlier ? follow(entry.request, before.request, earlier) : null;
      if (outcome) {
        outcomes[entry.index] = outcome;
      } else {
        open.add(entry.key);
        next.push(entry);
      }
    }
    waiting = next;
  }
  return outcomes;

  function follow(request: Request, earlier: Request, outcome: Outcome | Failed) {
    if (isFailed(outcome)) return notSent(outcome);
    return decide(request, { request: earlier, outcome });
  }
}

function isFailed(outcome: { readonly status: string }): outcome is Failed {
  return outcome.status === "failed";
}

function notSent(before: Failed): Failed {
  const error = new StoreUnavailableError(
    "not sent, because the request before it for the same key failed",
    { outcome: "none", cause: before.error },
  );
  return { status: "failed", applied: "no", retryable: before.retryable, error };
}

/** For acquires: after a grant, or after a request that found the key held, the key is held. */
export const decideAcquire: Decide<AcquireRequest, AcquireOutcome> = (request, before) => {
  const { outcome } = before;
  const isSame = request.leaseId === before.request.leaseId;
  // Only the store can assign a queue position.
  if (request.queueMs && !isSame) return null;
  if (outcome.status === "acquired") {
    if (isSame) return outcome;
    return {
      status: "held",
      holder: before.request.holder,
      grantId: grantIdOf(before.request.leaseId),
      remainingMs: outcome.remainingMs,
    };
  }
  if (outcome.status === "held") {
    // The grant in the way may be this very request's, made earlier.
    const repeated = outcome.grantId === null || outcome.grantId === grantIdOf(request.leaseId);
    return repeated ? null : outcome;
  }
  return null;
};

/** For renewals: a copy changes nothing more, unless it asks for longer. */
export const decideRenew: Decide<RenewRequest, RenewOutcome> = (request, before) => {
  if (request.leaseId !== before.request.leaseId) return null;
  const asksForMore = request.ttlMs > before.request.ttlMs;
  return before.outcome.status === "renewed" && asksForMore ? null : before.outcome;
};

/** For releases: a copy is answered as the first. */
export const decideRelease: Decide<ReleaseRequest, ReleaseOutcome> = (request, before) =>
  request.leaseId === before.request.leaseId ? before.outcome : null;
