/**
 * Batches for stores whose statement can decide each key once. The same key may stand several times
 * in a batch and is then decided in order, so the batch is sent in rounds:
 *
 *   requests   a1 b1 a2 c1 a3
 *   round 1    a1 b1    c1        the first of each key
 *   round 2          a2           unless a1's outcome says already what becomes of it
 *   round 3                a3
 *
 * Requests of grants need no rounds: at most one grant of a key is current, and only its request changes anything.
 * The requests of one grant are sent as one.
 */
import { grantIdOf, zip } from "../env/index.js";
import { StoreUnavailableError } from "./errors.js";
import type {
  AcquireOutcome,
  AcquireRequest,
  Failed,
  Grant,
  RenewOutcome,
  RenewRequest,
} from "./port.js";

/**
 * What becomes of a request for a key on which the store has just decided another one; null if only
 * the store can say.
 */
type Decide<Request, Outcome> = (
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
  if (requests.length === 0) return [];
  const keys = requests.map(keyOf);
  if (allDiffer(keys)) return [...(await send(requests))];
  const outcomes = new Array<Outcome | Failed>(requests.length);
  let waiting = zip(requests, keys).map(([request, key], index) => ({ request, index, key }));
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
  // Only the store can assign a queue position, or keep it for longer.
  if ((request.queueMs ?? 0) > ((isSame && before.request.queueMs) || 0)) return null;
  if (isSame) return outcome;
  if (outcome.status === "acquired") {
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

/** How several requests of one grant are sent as one. */
export interface Merging<Request, Outcome> {
  /** One request that does what both do. Default: the earlier one. */
  readonly merge?: (earlier: Request, later: Request) => Request;
  /** What the outcome of the merged request is to each other one, before or behind it. Default: the same. */
  readonly share?: (outcome: Outcome, request: Request, isBehind: boolean) => Outcome;
}

/**
 * Sends the requests of each grant once, all in one call.
 * @param grantOf a text that is unique per grant
 * @param send one outcome per request, in order
 * @returns one outcome per request, in order
 */
export async function oncePerGrant<Request, Outcome>(
  requests: readonly Request[],
  grantOf: (request: Request) => string,
  send: (merged: readonly Request[]) => Promise<readonly Outcome[]>,
  { merge = (earlier) => earlier, share = (outcome) => outcome }: Merging<Request, Outcome> = {},
): Promise<Outcome[]> {
  const grants = requests.map(grantOf);
  if (allDiffer(grants)) return [...(await send(requests))];
  const merged = new Map<string, Request>();
  for (const [request, grant] of zip(requests, grants)) {
    const earlier = merged.get(grant);
    merged.set(grant, earlier === undefined ? request : merge(earlier, request));
  }
  const outcomes = await send([...merged.values()]);
  const outcomeOf = new Map(zip([...merged.keys()], outcomes));
  const passed = new Set<string>();
  return zip(requests, grants).map(([request, grant]) => {
    const outcome = outcomeOf.get(grant) as Outcome;
    if (passed.has(grant) || merged.get(grant) !== request) {
      return share(outcome, request, passed.has(grant));
    }
    passed.add(grant);
    return outcome;
  });
}

export function allDiffer(texts: readonly string[]): boolean {
  return new Set(texts).size === texts.length;
}

/** Unique per grant: neither namespaces nor resources contain a NUL. */
export function grantText({ namespace, resource, leaseId }: Grant): string {
  return `${namespace}\0${resource}\0${leaseId}`;
}

/** For renewals: the longest is sent. Those before it are answered as if they had been sent before it. */
export function longest(stepMs: number): Merging<RenewRequest, RenewOutcome> {
  return {
    merge: (earlier, later) => (later.ttlMs > earlier.ttlMs ? later : earlier),
    share(outcome, request, isBehind) {
      if (isBehind || outcome.status !== "renewed") return outcome;
      const ttlMs = Math.ceil(request.ttlMs / stepMs) * stepMs;
      return { ...outcome, ttlMs, remainingMs: Math.min(ttlMs, outcome.remainingMs) };
    },
  };
}
