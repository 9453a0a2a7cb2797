/**
 * Requests of grants, such as renewals: at most one grant of a key is current, and only its request changes anything. The requests of
 * one grant are sent as one.
 */
import { zip } from "../env/index.js";
import type { Grant, RenewOutcome, RenewRequest } from "../lease/index.js";

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
