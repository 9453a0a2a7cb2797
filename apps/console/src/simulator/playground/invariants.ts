/**
 * What the code promises, checked from outside at each decision of the store, at each write and at
 * each term. Two promises rest on conditions that a person can break: clocks within what the holders
 * allow for, leases that are left to end by themselves, and a resource that fences. What breaks then
 * was not promised, and the badge says so.
 */
import type { InvariantFrame, InvariantId } from "./frame.js";
import type { Log } from "./log.js";

interface Invariant {
  readonly name: string;
  readonly promise: string;
}

const INVARIANTS: Readonly<Record<InvariantId, Invariant>> = {
  oneHolder: {
    name: "One holder",
    promise: "In the store's time the lease never has two holders.",
  },
  trustWithinGrant: {
    name: "Trust ends first",
    promise: "A holder stops trusting its lease before the store grants it to another.",
  },
  tokensGrow: {
    name: "Tokens grow",
    promise: "Each grant has a larger token than all before it.",
  },
  neverBack: {
    name: "No stale write",
    promise: "The resource takes nothing from an older holder once a newer one has written.",
  },
  noOverlap: {
    name: "Work ends first",
    promise: "A process begins no new term before its work of the last one has ended.",
  },
};

interface Breach {
  readonly atMs: number;
  readonly what: string;
  /** Why it was not promised; null: it was. */
  readonly excuse: string | null;
}

export class Invariants {
  readonly #log: Log;
  readonly #first = new Map<InvariantId, Breach>();
  readonly #counts = new Map<InvariantId, number>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** @param excuse why it is not promised now; null: it is */
  broken(id: InvariantId, what: string, excuse: string | null): void {
    const atMs = this.#log.world.nowMs;
    this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
    const first = this.#first.get(id);
    // A breach of what was promised outweighs one of what was not.
    if (first && (first.excuse === null || excuse !== null)) return;
    this.#first.set(id, { atMs, what, excuse });
    const aside = excuse === null ? "" : ` (not promised: ${excuse})`;
    this.#log.tell("check", "invariant", `${INVARIANTS[id].name}: ${what}${aside}.`, true);
  }

  /** @param excuses why an invariant is not promised at this moment; absent: it is */
  frame(excuses: Partial<Record<InvariantId, string | null>>): readonly InvariantFrame[] {
    return Object.entries(INVARIANTS).map(([key, { name, promise }]) => {
      const id = key as InvariantId;
      const first = this.#first.get(id);
      const excuse = first ? first.excuse : (excuses[id] ?? null);
      const aside = excuse === null ? "" : ` Not promised now: ${excuse}.`;
      return {
        id,
        name,
        holds: first === undefined,
        promised: excuse === null,
        sinceMs: first?.atMs ?? null,
        breaches: this.#counts.get(id) ?? 0,
        detail: `${first ? `${first.what}.` : promise}${aside}`,
      };
    });
  }
}
