/**
 * What the store of leases should answer, written down anew: a resource belongs to a lease id until a
 * time, waiters have an order, and tokens grow. Each decision of the store is compared with it.
 */
import type { LeaseView } from "leasehold";
import type {
  AcquireOutcome,
  AcquireRequest,
  Grant,
  Key,
  ReleaseOutcome,
  RenewOutcome,
  RevokeOutcome,
} from "leasehold/internal";
import { RESERVED_MS } from "leasehold/port";
import type { Judge } from "./judge.js";

/** How much of a grant its holder may trust: the defaults of a client. */
const trustedMs = (remainingMs: number) => remainingMs * 0.99 - 10;

/** A grant, as the store has given it. */
export interface Granted {
  readonly resource: string;
  readonly holder: string;
  readonly leaseId: string;
  readonly token: number;
  readonly grantedAtMs: number;
  /** The resource is not granted to others until then. */
  untilMs: number;
  /** The store's last confirmation, and until when the holder may trust it at the latest. */
  confirmedAtMs: number;
  trustedUntilMs: number;
  ended: "released" | "revoked" | null;
  endedAtMs: number;
  /** An operator has freed the resource under its holder. */
  isOverlapped: boolean;
}

interface Waiting {
  readonly leaseId: string;
  readonly holder: string;
  readonly sinceMs: number;
  untilMs: number;
}

class Resource {
  last: Granted | undefined;
  queue: Waiting[] = [];
  /** By holder: when it attempts again, by the remaining time in its last answer. A shorter lease that follows is not announced. */
  readonly attemptsAtMs = new Map<string, number>();
  /** When it was refused last because a waiter was ahead, who may have left since. */
  reservedAtMs = -Infinity;

  /** When the resource was free again after its last grant. */
  get freeAtMs(): number {
    return this.last?.untilMs ?? -Infinity;
  }
}

type Answer = Readonly<Record<string, unknown>>;

export class LeaseBook {
  readonly #site: Judge;
  readonly #resources = new Map<string, Resource>();
  readonly grants = new Map<string, Granted>();

  constructor(site: Judge) {
    this.#site = site;
  }

  #of(resource: string): Resource {
    const found = this.#resources.get(resource) ?? new Resource();
    this.#resources.set(resource, found);
    return found;
  }

  get resources(): readonly string[] {
    return [...this.#resources.keys()];
  }

  /** The grant that keeps others from the resource now. */
  current(resource: string): Granted | undefined {
    const { last } = this.#of(resource);
    return last && this.#site.nowMs < last.untilMs ? last : undefined;
  }

  last(resource: string): Granted | undefined {
    return this.#of(resource).last;
  }

  /** Whether it had the resource at any time since then. */
  wasHeldBy(resource: string, holder: string, sinceMs: number): boolean {
    return [...this.grants.values()].some(
      (granted) =>
        granted.resource === resource && granted.holder === holder && granted.untilMs > sinceMs,
    );
  }

  /** From when on a contender with this many live waiters before it could have it; `Infinity` while it is held. */
  freeFor(resource: string, holder: string): number {
    const found = this.#of(resource);
    if (this.current(resource)) return Infinity;
    const live = found.queue.filter(({ untilMs }) => this.#site.nowMs < untilMs);
    const at = live.findIndex((waiting) => waiting.holder === holder);
    return found.freeAtMs + RESERVED_MS * (at < 0 ? live.length : at);
  }

  /** When a holder that waits attempts again, unless it is notified. */
  attemptsAtMs(resource: string, holder: string): number {
    return this.#of(resource).attemptsAtMs.get(holder) ?? -Infinity;
  }

  /** How many live waiters of a holder have been in the queue since then or longer. */
  positions(resource: string, holder: string, sinceMs: number): number {
    return this.#of(resource).queue.filter(
      (waiting) =>
        waiting.holder === holder &&
        waiting.sinceMs <= sinceMs &&
        this.#site.nowMs < waiting.untilMs,
    ).length;
  }

  /** Whether a request that was made then could be refused. */
  wasHeldSince(resource: string, sinceMs: number): boolean {
    const { freeAtMs, reservedAtMs, queue } = this.#of(resource);
    return Math.max(freeAtMs + RESERVED_MS * queue.length, reservedAtMs) > sinceMs;
  }

  acquired(request: AcquireRequest, outcome: AcquireOutcome): void {
    const { resource, leaseId, holder, ttlMs, queueMs = 0 } = request;
    const { nowMs } = this.#site;
    const found = this.#of(resource);
    const { last } = found;
    found.queue = found.queue.filter(({ untilMs }) => nowMs < untilMs);
    const at = found.queue.findIndex((waiting) => waiting.leaseId === leaseId);
    const ahead = at < 0 ? found.queue.length : at;
    if (last?.leaseId === leaseId) {
      const isLive = last.ended === null && nowMs < last.untilMs;
      const { token } = last;
      this.#site.count(isLive ? "store: acquire repeated" : "store: acquire ended");
      this.#same(
        "acquire",
        request,
        outcome,
        isLive ? { status: "acquired", token } : { status: "ended" },
      );
      if (isLive && outcome.status === "acquired") {
        this.#near("acquire", outcome.remainingMs, last.untilMs - nowMs);
        this.#confirm(last, outcome.remainingMs);
      }
      found.queue.splice(0, at + 1);
      return;
    }
    const isHeld = last !== undefined && nowMs < last.untilMs;
    const isReserved = last !== undefined && nowMs < last.untilMs + RESERVED_MS * ahead;
    if (isHeld || isReserved) {
      if (!isHeld) found.reservedAtMs = nowMs;
      const [first] = found.queue;
      this.#site.count(isHeld ? "store: acquire refused" : "store: acquire reserved for a waiter");
      this.#same("acquire", request, outcome, {
        status: "held",
        holder: isHeld ? last.holder : (first?.holder ?? ""),
      });
      if (outcome.status === "held") {
        const queued = isHeld && queueMs === 0 ? 0 : ahead;
        const leftMs = last.untilMs + RESERVED_MS * queued - nowMs;
        this.#near("acquire", outcome.remainingMs ?? -1, leftMs);
        found.attemptsAtMs.set(holder, nowMs + leftMs);
      }
      if (queueMs > 0) {
        const untilMs = nowMs + queueMs;
        const own = found.queue[at];
        if (own) own.untilMs = Math.max(own.untilMs, untilMs);
        else found.queue.push({ leaseId, holder, sinceMs: nowMs, untilMs });
      }
      return;
    }
    this.#site.count("store: acquire granted");
    if (ahead > 0) this.#site.count("store: a waiter passed over");
    this.#same("acquire", request, outcome, { status: "acquired", ttlMs });
    found.queue.splice(0, at + 1);
    if (outcome.status !== "acquired") return;
    const { token } = outcome;
    this.#site.expect(
      token > (last?.token ?? 0),
      () => `token ${token} of ${resource} is not above ${last?.token}`,
    );
    this.#near("acquire", outcome.remainingMs, ttlMs);
    const granted: Granted = {
      resource,
      holder,
      leaseId,
      token,
      grantedAtMs: nowMs,
      untilMs: nowMs + ttlMs,
      confirmedAtMs: nowMs,
      trustedUntilMs: -Infinity,
      ended: null,
      endedAtMs: Infinity,
      isOverlapped: false,
    };
    this.#confirm(granted, outcome.remainingMs);
    this.grants.set(leaseId, granted);
    found.last = granted;
  }

  renewed(request: Grant & { readonly ttlMs: number }, outcome: RenewOutcome): void {
    const { nowMs } = this.#site;
    const { last } = this.#of(request.resource);
    const reason = this.#refusal(last, request);
    this.#site.count(
      reason === null ? "store: renew confirmed" : `store: renew refused, ${reason}`,
    );
    if (reason !== null || !last)
      return this.#same("renew", request, outcome, { status: "lost", reason });
    last.untilMs = Math.max(last.untilMs, nowMs + request.ttlMs);
    this.#same("renew", request, outcome, { status: "renewed", token: last.token });
    if (outcome.status !== "renewed") return;
    this.#near("renew", outcome.remainingMs, last.untilMs - nowMs);
    this.#confirm(last, outcome.remainingMs);
  }

  released(request: Grant, outcome: ReleaseOutcome): void {
    const { nowMs } = this.#site;
    const found = this.#of(request.resource);
    const { last } = found;
    const isOwn = last?.leaseId === request.leaseId;
    const isReleased = isOwn && (last.ended === "released" || nowMs < last.untilMs);
    this.#same("release", request, outcome, { status: isReleased ? "released" : "notHeld" });
    this.#site.count(`store: release ${isReleased ? "confirmed" : "of nothing held"}`);
    if (isReleased && last.ended !== "released") {
      last.ended = "released";
      last.endedAtMs = last.untilMs = nowMs;
    } else {
      found.queue = found.queue.filter(({ leaseId }) => leaseId !== request.leaseId);
    }
  }

  revoked(
    request: Key & { readonly expectedToken?: number; readonly free: "now" | "atExpiry" },
    outcome: RevokeOutcome,
  ): void {
    const { nowMs } = this.#site;
    const last = this.current(request.resource);
    if (!last) return this.#same("revoke", request, outcome, { status: "notHeld" });
    if (request.expectedToken !== undefined && request.expectedToken !== last.token) {
      return this.#same("revoke", request, outcome, { status: "otherToken" });
    }
    last.ended = "revoked";
    last.endedAtMs = Math.min(last.endedAtMs, nowMs);
    if (request.free === "now") {
      last.untilMs = nowMs;
      last.isOverlapped = true;
    }
    this.#same("revoke", request, outcome, { status: "revoked", token: last.token });
    if (outcome.status === "revoked") this.#near("revoke", outcome.freeInMs, last.untilMs - nowMs);
  }

  read({ resource }: Key, view: LeaseView | null): void {
    const { last } = this.#of(resource);
    if (!last)
      return this.#site.expect(
        view === null,
        `get of ${resource} finds a grant that was never made`,
      );
    const isLive = last.ended === null && this.#site.nowMs < last.untilMs;
    const { holder, token } = last;
    const state = isLive ? "live" : (last.ended ?? "expired");
    this.#same("get", { resource }, { ...view }, { resource, holder, token, state });
    const leftMs = isLive ? last.untilMs - this.#site.nowMs : 0;
    this.#near("get", view?.remainingMs ?? -1, leftMs);
  }

  #refusal(last: Granted | undefined, { leaseId }: Grant): string | null {
    if (!last) return "gone";
    if (last.leaseId !== leaseId) return "taken";
    if (last.ended !== null) return last.ended === "revoked" ? "revoked" : "gone";
    return this.#site.nowMs < last.untilMs ? null : "expired";
  }

  #confirm(granted: Granted, remainingMs: number): void {
    const { nowMs } = this.#site;
    granted.confirmedAtMs = nowMs;
    granted.trustedUntilMs = Math.max(granted.trustedUntilMs, nowMs + trustedMs(remainingMs));
  }

  /** The members of the right answer are those of the answer. */
  #same(operation: string, request: object, answer: object, right: Answer): void {
    const given = answer as Answer;
    const isSame = Object.entries(right).every(([name, value]) => given[name] === value);
    this.#site.expect(isSame, () => {
      const [asked, should] = [JSON.stringify(request), JSON.stringify(right)];
      return `${operation} ${asked} answers ${JSON.stringify(answer)}, not ${should}`;
    });
  }

  /** Durations are whole milliseconds. */
  #near(operation: string, ms: number, rightMs: number): void {
    const isNear = Math.abs(ms - rightMs) <= 1;
    this.#site.expect(isNear, () => `${operation} says ${ms} ms, not about ${rightMs}`);
  }
}
