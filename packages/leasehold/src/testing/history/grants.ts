/**
 * Checks whether the grants of a long run exclude each other: the guarantees that can be checked in linear
 * time. It finds less than {@link checkLinearizability}, in histories of any length.
 *
 *   by token     7 ├──────held──────┤            held for sure: from the answer that granted it to
 *                8        ├─ acquire ─┤ ├──...   the first of: its release or revoke (as sent), what
 *                9   ├─ acquire ─┤               an answer said was left of it (counted from before
 *                                                its request was sent)
 *
 * - unique: no token names two grants of a resource;
 * - order: a grant that was answered before another was asked for has the smaller token;
 * - overlap: when a grant is answered, none with a smaller token is still held for sure. That covers
 *   renewals after a takeover, and a repeated acquire that makes a second grant.
 *
 * An operator's revoke that frees at once, and whose answer was lost, may have ended any one grant:
 * each excuses one overlap of its resource.
 */
import type { Key } from "../../lease/index.js";
import { type HistoryEntry, keyText } from "./entry.js";

/** The result of `checkGrants`. */
export interface GrantsReport {
  /** By resource, then by token; at most 100. Empty if no guarantee is violated. */
  readonly violations: readonly GrantViolation[];
  readonly grants: number;
  readonly resources: number;
}

/** Two grants of a resource that no correct store gives. */
export interface GrantViolation extends Key {
  readonly property: "unique" | "order" | "overlap";
  /** The two grants, as lines, and what is wrong with them. */
  readonly explanation: readonly string[];
}

/** The state of a grant, as known from all requests that name it. */
interface GrantSeen {
  readonly leaseId: string;
  readonly token: number;
  /** Of the request whose answer was the first to tell of it. */
  client: string;
  invokeMs: number;
  answeredMs: number;
  /** No answer shows it held longer than this. */
  trustMs: number;
}

interface Resource extends Key {
  /** By token, then lease id. */
  readonly grants: Map<number, GrantSeen[]>;
  readonly releases: Map<string, number>;
  /** When each token was revoked. */
  readonly revokes: Map<number, number>;
  /** When a revoke without an answer was sent. */
  readonly lostRevokes: number[];
}

const MOST_VIOLATIONS = 100;

/**
 * Checks that the grants of a history exclude each other. Accepts entries one by one in any order, and keeps only the
 * parts that it needs.
 * @param options.toleranceMs by how many milliseconds clocks may differ over the length of a grant. Default 1, the
 *   resolution of the stores' times
 * @example
 * ```ts
 * import { connect, openStores } from "leasehold";
 * import { checkGrants, recordHistory } from "leasehold/testing";
 *
 * const stores = await openStores("memory:");
 * const { store, history } = recordHistory(stores.leases, { monotonic: () => performance.now() });
 * const leasehold = await connect(store);
 * await leasehold.run("billing", () => {});
 * console.log(checkGrants(history.entries()).violations);
 * await leasehold.close();
 * await stores.close();
 * ```
 */
export function checkGrants(
  history: Iterable<HistoryEntry>,
  { toleranceMs = 1 }: { readonly toleranceMs?: number } = {},
): GrantsReport {
  const resources = new Map<string, Resource>();
  for (const entry of history) note(resources, entry);
  const violations: GrantViolation[] = [];
  let grants = 0;
  for (const resource of resources.values()) {
    for (const seen of resource.grants.values()) grants += seen.length;
    violations.push(...judge(resource, toleranceMs).slice(0, MOST_VIOLATIONS - violations.length));
  }
  return { violations, grants, resources: resources.size };
}

function note(resources: Map<string, Resource>, entry: HistoryEntry): void {
  const { namespace, resource } = entry.request;
  const key = keyText(entry.request);
  let found = resources.get(key);
  if (!found) {
    const empty = { grants: new Map(), releases: new Map(), revokes: new Map(), lostRevokes: [] };
    found = { namespace, resource, ...empty };
    resources.set(key, found);
  }
  if (entry.result === "fail") return;
  const { invokeMs } = entry;
  if (entry.operation === "release") {
    earliest(found.releases, entry.request.leaseId, invokeMs);
  } else if (entry.operation === "revoke") {
    if (entry.request.free === "atExpiry") return;
    const token =
      entry.outcome?.status === "revoked" ? entry.outcome.token : entry.request.expectedToken;
    if (token !== undefined) earliest(found.revokes, token, invokeMs);
    else if (!entry.outcome) found.lostRevokes.push(invokeMs);
  } else if (entry.outcome && "token" in entry.outcome) {
    granted(found, entry, entry.outcome);
  }
}

function earliest<Name>(times: Map<Name, number>, name: Name, ms: number): void {
  times.set(name, Math.min(times.get(name) ?? ms, ms));
}

function granted(
  { grants }: Resource,
  entry: HistoryEntry & { readonly request: { readonly leaseId?: string } },
  { token, remainingMs }: { readonly token: number; readonly remainingMs: number },
): void {
  const { client, invokeMs, returnMs } = entry;
  const { leaseId = "" } = entry.request;
  const trustMs = invokeMs + remainingMs;
  const answeredMs = returnMs ?? Number.POSITIVE_INFINITY;
  const same = grants.get(token);
  const seen = same?.find((grant) => grant.leaseId === leaseId);
  if (seen) {
    seen.trustMs = Math.max(seen.trustMs, trustMs);
    if (answeredMs < seen.answeredMs) Object.assign(seen, { client, invokeMs, answeredMs });
    return;
  }
  // There may be millions of entries, so they are not kept.
  const grant: GrantSeen = { leaseId, token, client, invokeMs, answeredMs, trustMs };
  if (same) same.push(grant);
  else grants.set(token, [grant]);
}

function judge(resource: Resource, toleranceMs: number): GrantViolation[] {
  const { namespace, resource: name, lostRevokes } = resource;
  const found: GrantViolation[] = [];
  const grants = [...resource.grants.values()].flat().sort((a, b) => a.token - b.token);
  const report = (property: GrantViolation["property"], a: GrantSeen, b: GrantSeen, why: string) =>
    found.push({
      namespace,
      resource: name,
      property,
      explanation: [lineOf(a), lineOf(b), why],
    });
  lostRevokes.sort((a, b) => a - b);
  let excused = 0;
  let lastAsked: GrantSeen | undefined;
  let lastHeld: GrantSeen | undefined;
  let heldUntilMs = Number.NEGATIVE_INFINITY;
  let before: GrantSeen | undefined;
  for (const grant of grants) {
    const { token, leaseId, invokeMs, answeredMs } = grant;
    if (before?.token === token) report("unique", before, grant, `two grants with token ${token}`);
    if (lastAsked && answeredMs < lastAsked.invokeMs) {
      report("order", grant, lastAsked, "the one that was answered first has the larger token");
    }
    if (lastHeld && answeredMs + toleranceMs < heldUntilMs) {
      const revokedMs = lostRevokes[excused] ?? Number.POSITIVE_INFINITY;
      if (revokedMs < answeredMs) {
        excused += 1;
        // The revoke ended this grant for all later comparisons too, not only for the next grant.
        heldUntilMs = Number.NEGATIVE_INFINITY;
      } else {
        const until = `the first is held until ${heldUntilMs.toFixed(1)} at least`;
        report("overlap", lastHeld, grant, until);
      }
    }
    const stopMs = Math.min(
      resource.releases.get(leaseId) ?? Number.POSITIVE_INFINITY,
      resource.revokes.get(token) ?? Number.POSITIVE_INFINITY,
    );
    const untilMs = Math.min(grant.trustMs, stopMs);
    if (untilMs > heldUntilMs) [lastHeld, heldUntilMs] = [grant, untilMs];
    if (!lastAsked || invokeMs > lastAsked.invokeMs) lastAsked = grant;
    before = grant;
  }
  return found;
}

function lineOf({ client, leaseId, token, invokeMs, answeredMs }: GrantSeen): string {
  const window = `${invokeMs.toFixed(1)}..${answeredMs.toFixed(1)}`;
  return `${window} ${client} was granted token ${token} for lease ${leaseId.slice(0, 8)}`;
}
