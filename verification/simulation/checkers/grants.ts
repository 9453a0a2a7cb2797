/**
 * Held against every decision of the store, from its outcomes alone, by bookkeeping of its own:
 * grants of one resource never overlap in store time, tokens only grow, nothing comes back that has
 * ended, and no holder still trusts its grant when the next one is made.
 */
import type { Lease } from "leasehold";
import type { HeldLease } from "leasehold/internal";
import type { Process } from "../machine.js";
import type { Step } from "../observed.js";
import type { World } from "../world.js";

interface Grant {
  readonly leaseId: string;
  readonly token: number;
  /** Until then no other holder may be granted the resource. */
  untilMs: number;
  ended: boolean;
}

export interface TrustRules {
  /** Writes and time may be lost: tokens grow all the same, and nothing else is promised. */
  readonly weak: boolean;
  /**
   * Whether the clocks are within what the holders allow for. Otherwise an overlap of trust is
   * counted, and only the fence protects.
   */
  readonly clocksBounded: boolean;
}

export class GrantChecker {
  /** How often a holder still trusted a grant that the store had replaced. */
  overlaps = 0;
  readonly #world: World;
  readonly #rules: TrustRules;
  readonly #last = new Map<string, Grant>();
  readonly #gone = new Set<string>();
  readonly #held = new Set<{ readonly lease: HeldLease; readonly process: Process }>();
  /** The tokens of all leases that programs were given, by lease id. */
  readonly #given = new Map<string, number>();
  /** Resources freed at once by an operator: only the fence protects then. */
  readonly #untrusted = new Set<string>();

  constructor(world: World, rules: TrustRules) {
    this.#world = world;
    this.#rules = rules;
  }

  /** A process has just been given this. */
  watch(process: Process, lease: Lease): void {
    if (lease.remainingMs() <= 0) {
      this.#violate(
        "a grant whose trust has passed on arrival is not acquired",
        process.name,
        lease.resource,
      );
    }
    const { leaseId, token } = lease as HeldLease;
    const before = this.#given.get(leaseId) ?? token;
    if (before !== token) {
      const what = `given with token ${before}, then ${token}`;
      this.#violate("a leaseId names one grant for ever", what, lease.resource);
    }
    this.#given.set(leaseId, token);
    this.#held.add({ lease: lease as HeldLease, process });
  }

  /** What a holder asks before each step that must not be done twice. */
  mayGoOn(process: Process, lease: Lease): boolean {
    const alive = lease.checkAlive();
    if (alive && lease.remainingMs() <= 0) {
      this.#violate(
        "checkAlive is never stale",
        `checkAlive() was true for ${process.name}`,
        lease.resource,
      );
    }
    return alive;
  }

  step(step: Step): void {
    if (this.#rules.weak) return this.#tokens(step);
    const { operation, resource, leaseId, outcome, after, storeMs } = step;
    const last = this.#last.get(resource);
    if (operation === "acquire" && outcome.status === "acquired" && after && leaseId) {
      if (last?.leaseId === leaseId) {
        if (last.ended || storeMs >= last.untilMs)
          this.#violate(
            "unknown outcome is safe",
            "a repeated acquire brought an ended grant back",
            resource,
          );
        if (after.token !== last.token)
          this.#violate(
            "unknown outcome is safe",
            "a repeated acquire answered another token",
            resource,
          );
      } else {
        this.#granted(resource, leaseId, after.token, after.expiresAtMs, storeMs);
      }
      return;
    }
    if (!last || outcome.status === "failed") return;
    if (operation === "renew" && outcome.status === "renewed" && after) {
      if (last.leaseId !== leaseId || last.ended || storeMs >= last.untilMs) {
        this.#violate("no renewal after expiry", "an ended grant was renewed", resource);
      }
      if (after.token !== last.token)
        this.#violate("tokens", "a renewal changed the token", resource);
      last.untilMs = after.expiresAtMs;
    }
    if (operation === "release" && outcome.status === "released" && after) {
      if (last.leaseId === leaseId) {
        last.ended = true;
        last.untilMs = Math.min(last.untilMs, after.expiresAtMs);
      }
    }
    if (operation === "revoke" && outcome.status === "revoked" && after) {
      if (after.expiresAtMs <= storeMs) {
        this.#untrusted.add(last.leaseId);
        this.#world.cover("revoked now");
      } else this.#world.cover("revoked at expiry");
      last.ended = true;
      last.untilMs = after.expiresAtMs;
    }
  }

  /** No two grants share a token, and a later one has the larger. */
  #tokens({ operation, resource, leaseId, outcome, before, after }: Step): void {
    if (operation !== "acquire" || outcome.status !== "acquired" || !after || !leaseId) return;
    if (before?.leaseId === leaseId) return;
    const last = this.#last.get(resource);
    if (last && after.token <= last.token) {
      this.#violate("tokens", `${after.token} after ${last.token}`, resource);
    }
    const { token, expiresAtMs: untilMs } = after;
    this.#last.set(resource, { leaseId, token, untilMs, ended: false });
  }

  #granted(resource: string, leaseId: string, token: number, untilMs: number, nowMs: number): void {
    const last = this.#last.get(resource);
    if (last) {
      if (nowMs < last.untilMs)
        this.#violate("mutual exclusion", `granted ${last.untilMs - nowMs} ms too early`, resource);
      if (token <= last.token) this.#violate("tokens", `${token} after ${last.token}`, resource);
      if (!last.ended) this.#world.cover("taken over after expiry");
      this.#gone.add(last.leaseId);
    }
    // The store remembers only the last grant of a resource. A repeated request that arrives after the
    // successor's grant has ended too is granted again. No program is given that grant, so it expires;
    // a client that had the first one refuses a renewal with another token.
    if (this.#gone.has(leaseId)) this.#world.cover("late repetition granted without a holder");
    for (const entry of this.#held) {
      const { lease, process } = entry;
      if (!process.alive || !lease.isHeld) this.#held.delete(entry);
      else if (lease.resource === resource && lease.remainingMs() > 0)
        this.#trusted(lease, process);
    }
    this.#last.set(resource, { leaseId, token, untilMs, ended: false });
  }

  #trusted(lease: Lease, process: Process): void {
    if (this.#untrusted.has(lease.leaseId))
      return this.#world.cover("trusted although revoked now");
    this.overlaps += 1;
    this.#world.cover("trust outlived the grant");
    if (!this.#rules.clocksBounded) return;
    this.#violate(
      "trust ends before the next grant",
      `${process.name} trusts token ${lease.token} for ${lease.remainingMs().toFixed(1)} ms more`,
      lease.resource,
    );
  }

  #violate(property: string, what: string, resource: string): void {
    this.#world.violate(property, `${what} ("${resource}")`);
  }
}
