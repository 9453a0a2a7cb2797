/**
 * Revocations that two operators must agree on:
 *
 *   revoke of a resource below one of the prefixes ─▶ entry lease.requestRevoke { token, grantId, free }, nothing else
 *                                                        │ of its number
 *   confirm by another actor, with that token and mode ──┴▶ revoke { expectedToken } ─▶ entry lease.revoke { confirms }
 *
 * The audit is the record: all servers share it, it survives restarts, and a changed entry is noticed. A request needs no
 * mark once it was confirmed. It is about one grant, and tokens only grow, so a second confirmation, even at the same time,
 * ends no other grant.
 */
import { type Env, InvalidOptionError, LeaseholdError, type LeaseView } from "leasehold";
import {
  type AuditEntry,
  type By,
  type Control,
  claimedActorOf,
  entryOf,
  invariant,
  type RequestedRevocation,
  type RevokeRequest,
} from "leasehold/internal";
import { type Caller, TASK_PREFIX } from "../auth/caller.js";
import { excludesOthers } from "../console/lease-filters.js";
import { ProblemError } from "../problems.js";
import type { Budget } from "../request.js";
import { hasEnded, isSameHand } from "./same-hand.js";

/** Which revocations need a second operator; see `twoPersonRevoke` of `createApp`. */
export interface TwoPersonRevoke {
  /** Revocations of resources that begin with one of these need a second operator. A function: those of a tenant. */
  readonly prefixes: readonly string[] | ((namespace: string) => readonly string[]);
  /** How long a request can be confirmed, from 1 minute to 1 day. Default 1 hour. */
  readonly confirmWithinMs?: number | undefined;
}

const DEFAULT_WITHIN_MS = 3_600_000;
export const SHORTEST_WITHIN_MS = 60_000;
export const LONGEST_WITHIN_MS = 24 * 3_600_000;
/** Requests of one tenant that wait. Servers that count at the same time may each admit one more. */
const MOST_OPEN = 100;
const REQUESTS = ["lease.requestRevoke"] as const;
/** Pages of the audit that a list reads: each passes over at most 10,000 entries. */
const MOST_PAGES = 20;

/** @throws InvalidOptionError */
export function checkTwoPerson({ prefixes, confirmWithinMs }: TwoPersonRevoke): void {
  const path = "twoPersonRevoke";
  for (const prefix of typeof prefixes === "function" ? [] : prefixes) {
    if (!prefix.startsWith(TASK_PREFIX)) continue;
    const why = "the leases of tasks end with their tasks, which are cancelled instead";
    throw new InvalidOptionError(`${path}.prefixes`, `must not begin with "task:": ${why}`);
  }
  const withinMs = confirmWithinMs ?? DEFAULT_WITHIN_MS;
  if (withinMs >= SHORTEST_WITHIN_MS && withinMs <= LONGEST_WITHIN_MS) return;
  const range = `from ${SHORTEST_WITHIN_MS} to ${LONGEST_WITHIN_MS}`;
  throw new InvalidOptionError(`${path}.confirmWithinMs`, `must be ${range}, not ${withinMs}`);
}

/** What an entry of a request has beside the fields of all entries. */
interface Details {
  readonly token: number;
  readonly grantId: string;
  readonly holder: string;
  readonly free: RevokeRequest["free"];
  readonly confirmBefore: string;
}

/** A request in the audit. */
export interface Requested {
  readonly revocation: RequestedRevocation;
  readonly grantId: string;
  readonly entry: AuditEntry;
}

/** What became of a revocation that needs a second operator. */
export type RequestOutcome =
  | ({ readonly status: "requested" } & RequestedRevocation)
  | { readonly status: "notHeld" | "otherToken" }
  /** Two operators have agreed before. */
  | { readonly status: "revoked"; readonly token: number; readonly freeInMs: number };

/** Why a request cannot be confirmed, for the audit and for the caller. */
export interface Refusal {
  readonly why: string;
  readonly problem: ProblemError;
}

interface Ports {
  readonly control: Control;
  readonly leases: { get(keys: readonly Key[]): Promise<readonly (LeaseView | null)[]> };
  readonly clock: Pick<Env["clock"], "wall">;
}

type Key = Pick<RevokeRequest, "namespace" | "resource">;

export class TwoPersonRevocations {
  readonly #ports: Ports;
  readonly #prefixesOf: (namespace: string) => readonly string[];
  readonly #withinMs: number;

  /** @param options undefined: no revocation needs a second operator, but what other servers have recorded can be confirmed */
  constructor(ports: Ports, options: TwoPersonRevoke | undefined) {
    const { prefixes = [], confirmWithinMs = DEFAULT_WITHIN_MS } = options ?? {};
    this.#ports = ports;
    this.#prefixesOf = typeof prefixes === "function" ? prefixes : () => prefixes;
    this.#withinMs = confirmWithinMs;
  }

  /** Whether there are such resources of the tenant. */
  concerns(namespace: string): boolean {
    return this.#prefixesOf(namespace).length > 0;
  }

  /** Whether an operator alone cannot end a lease on this resource. */
  covers({ namespace, resource }: Key): boolean {
    return this.#prefixesOf(namespace).some((prefix) => resource.startsWith(prefix));
  }

  /**
   * Records a request about the current grant, unless the same one waits already: a client may repeat a call whose answer
   * it has lost. Rejects if the request could not be recorded; nothing is revoked either way.
   */
  async request(
    asked: RevokeRequest,
    by: By,
    budget: Budget,
  ): Promise<{ readonly outcome: RequestOutcome; readonly entry: AuditEntry }> {
    const { namespace, resource, free, expectedToken } = asked;
    const { clock } = this.#ports;
    const act = { ...by, namespace, target: resource };
    const view = await budget.read(() => this.#viewOf(asked));
    const { outcome, held } = judged(view, asked);
    if (!held) {
      const details = { free, ...(expectedToken !== undefined && { expectedToken }), ...outcome };
      const entry = await this.#enter(
        budget,
        entryOf({ ...act, action: "lease.revoke" }, "done", details),
      );
      return { outcome, entry };
    }
    const { token, grantId, holder } = held;
    const open = await budget.read(() => this.open(namespace));
    const isSame = ({ revocation, grantId: of }: Requested) =>
      revocation.resource === resource && revocation.free === free && of === grantId;
    const known = open.find(isSame);
    if (known) return recorded(known);
    if (open.length >= MOST_OPEN) throw tooManyOpen();
    const confirmBefore = new Date(clock.wall() + this.#withinMs).toISOString();
    const details: Details = { token, grantId, holder, free, confirmBefore };
    const [action] = REQUESTS;
    const entry = await this.#enter(budget, entryOf({ ...act, action }, "done", details));
    const requested = requestedOf(entry);
    invariant(requested, "a new entry is readable");
    return recorded(requested);
  }

  /**
   * The requests that can be confirmed: neither they nor the keys of their requesters have ended, and they are about a
   * grant that still excludes others.
   */
  async open(namespace: string): Promise<Requested[]> {
    const { control, leases, clock } = this.#ports;
    const found: Requested[] = [];
    const sinceMs = clock.wall() - LONGEST_WITHIN_MS;
    let cursor: string | undefined;
    for (let pages = 0; pages < MOST_PAGES; pages += 1) {
      const query = { namespace, actions: REQUESTS, limit: MOST_OPEN };
      const { items, nextCursor } = await control.audit.list({
        ...query,
        ...(cursor && { cursor }),
      });
      for (const entry of items) {
        const requested = requestedOf(entry);
        if (requested && !this.#hasEnded(requested)) found.push(requested);
      }
      const last = items.at(-1);
      const isOld = last !== undefined && Date.parse(last.at) < sinceMs;
      if (nextCursor === null || isOld) break;
      cursor = nextCursor;
    }
    const keys = found.map(({ revocation: { resource } }) => ({ namespace, resource }));
    const views = keys.length > 0 ? await leases.get(keys) : [];
    const current = found.filter((one, index) => {
      const view = views[index] ?? null;
      return isAbout(one, view) && !isRevoked(view, one.revocation.free);
    });
    const requesters = new Set(current.map(({ revocation }) => revocation.requestedBy));
    const ended = new Set<string>();
    for (const actor of requesters) if (await hasEnded(control.keys, actor)) ended.add(actor);
    return current.filter(({ revocation }) => !ended.has(revocation.requestedBy));
  }

  /** The request of this number in the tenant; null: none. */
  async find(namespace: string, id: number): Promise<Requested | null> {
    const [entry] = await this.#ports.control.audit.read(id - 1, 1);
    if (entry?.seq !== id || entry.namespace !== namespace) return null;
    return requestedOf(entry);
  }

  /** Why the caller cannot confirm this; null: it can. */
  async refusal(
    requested: Requested,
    confirmed: Pick<RequestedRevocation, "token" | "free">,
    caller: Caller,
  ): Promise<Refusal | null> {
    const { revocation, entry } = requested;
    const { token, free, requestedBy, resource } = revocation;
    if (caller.keyId === null) {
      return refused(
        "FORBIDDEN",
        "noIdentity",
        "a revocation is confirmed with a key or an identity of an issuer",
      );
    }
    const hand = await isSameHand(this.#ports.control, entry, caller);
    if (hand)
      return refused(
        "FORBIDDEN",
        hand.why,
        `a second person must confirm this: ${hand.detail(requestedBy)}`,
      );
    if (this.#hasEnded(requested)) {
      return conflict(
        "ended",
        `the time to confirm it ended at ${revocation.confirmBefore}: request it again`,
      );
    }
    if (confirmed.token !== token || confirmed.free !== free) {
      return conflict(
        "differs",
        `it was requested for token ${token} and "${free}": confirm these, or request another`,
      );
    }
    const view = await this.#viewOf({ namespace: caller.namespace, resource });
    if (isAbout(requested, view)) return null;
    const now =
      view && excludesOthers(view) ? `token ${view.token} holds it by now` : "it is no longer held";
    return conflict("otherGrant", `it is about the grant with token ${token}, and ${now}`);
  }

  /** Enters a refused confirmation. Rejects if that fails. */
  async enterRefused(
    { revocation }: Requested,
    why: string,
    by: By,
    namespace: string,
  ): Promise<void> {
    const { id, resource, token, free } = revocation;
    const act = { ...by, namespace, action: "lease.revoke" as const, target: resource };
    const details = { free, expectedToken: token, confirms: id, status: "refused", why };
    await this.#ports.control.audit.append([entryOf(act, "done", details)]);
  }

  #hasEnded({ revocation: { confirmBefore } }: Requested): boolean {
    return this.#ports.clock.wall() >= Date.parse(confirmBefore);
  }

  async #viewOf(key: Key): Promise<LeaseView | null> {
    const { namespace, resource } = key;
    const [view] = await this.#ports.leases.get([{ namespace, resource }]);
    return view ?? null;
  }

  async #enter(budget: Budget, entry: ReturnType<typeof entryOf>): Promise<AuditEntry> {
    const [written] = await budget.change(() => this.#ports.control.audit.append([entry]));
    invariant(written, "one entry for each");
    return written;
  }
}

function recorded({ revocation, entry }: Requested): {
  readonly outcome: RequestOutcome;
  readonly entry: AuditEntry;
} {
  return { outcome: { status: "requested", ...revocation }, entry };
}

function statusOf(
  view: LeaseView | null,
  expectedToken: number | undefined,
): "held" | "notHeld" | "otherToken" {
  if (!view || !excludesOthers(view)) return "notHeld";
  return expectedToken === undefined || expectedToken === view.token ? "held" : "otherToken";
}

/** The grant that a revocation would end, or the outcome if it would change nothing. */
function judged(
  view: LeaseView | null,
  { free, expectedToken }: RevokeRequest,
):
  | { readonly held: LeaseView; readonly outcome?: undefined }
  | {
      readonly held?: undefined;
      readonly outcome: Exclude<RequestOutcome, { status: "requested" }>;
    } {
  if (view === null) return { outcome: { status: "notHeld" } };
  const status = statusOf(view, expectedToken);
  if (status !== "held") return { outcome: { status } };
  if (!isRevoked(view, free)) return { held: view };
  return { outcome: { status: "revoked", token: view.token, freeInMs: view.freeInMs ?? 0 } };
}

/** Whether the grant was revoked already, and this would not free it any sooner. */
function isRevoked(view: LeaseView | null, free: RevokeRequest["free"]): boolean {
  return view?.state === "revoked" && free === "atExpiry";
}

function isAbout({ revocation, grantId }: Requested, view: LeaseView | null): boolean {
  return statusOf(view, revocation.token) === "held" && view?.grantId === grantId;
}

/** Null for an entry of another action, and for one that was edited by hand. */
function requestedOf(entry: AuditEntry): Requested | null {
  const { action, phase, details: text } = entry;
  if (action !== REQUESTS[0] || phase !== "done") return null;
  const details = parsed(text);
  if (!details) return null;
  const { grantId, holder, token, free, confirmBefore } = details;
  const { seq: id, target: resource, actor: requestedBy, at: requestedAt, reason } = entry;
  const claimedActor = claimedActorOf(text);
  const about = { id, resource, holder, token, free, requestedBy, claimedActor, reason };
  return { revocation: { ...about, requestedAt, confirmBefore }, grantId, entry };
}

function parsed(text: string): Details | null {
  try {
    const { token, grantId, holder, free, confirmBefore } = JSON.parse(text) as Partial<Details>;
    const isWhole =
      Number.isSafeInteger(token) &&
      typeof grantId === "string" &&
      typeof holder === "string" &&
      (free === "now" || free === "atExpiry") &&
      Number.isFinite(Date.parse(confirmBefore ?? ""));
    return isWhole ? ({ token, grantId, holder, free, confirmBefore } as Details) : null;
  } catch {
    return null;
  }
}

function tooManyOpen(): LeaseholdError {
  const detail = `${MOST_OPEN} revocations of this tenant wait for a second operator: confirm them, or wait until they end`;
  return new LeaseholdError("CONFIRMATION_REQUIRED", detail, { retryable: false, outcome: "none" });
}

function refused(code: "FORBIDDEN" | "CONFIRMATION_REFUSED", why: string, detail: string): Refusal {
  return { why, problem: new ProblemError(code, detail) };
}

export function conflict(why: string, detail: string): Refusal {
  return refused("CONFIRMATION_REFUSED", why, `nothing was revoked: ${detail}`);
}
