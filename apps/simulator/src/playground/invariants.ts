/**
 * The guarantees of the code, checked from outside at each decision of the store, at each write and at each
 * term. Some depend on conditions that the user can break: clocks within the drift that holders allow for,
 * leases that end by themselves, and a resource that checks tokens. A breach is then marked as not
 * guaranteed.
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
    promise: "By the store's clock the lease never has two holders.",
  },
  trustWithinGrant: {
    name: "Trust ends first",
    promise: "A holder stops trusting its lease before the store grants it to another.",
  },
  tokensGrow: {
    name: "Tokens grow",
    promise: "Each grant has a larger token than every earlier grant.",
  },
  neverBack: {
    name: "No stale write",
    promise: "The resource accepts no write from an older holder once a newer one has written.",
  },
  noOverlap: {
    name: "Work ends first",
    promise: "A process starts no new term before its work for the last one has ended.",
  },
};

interface Breach {
  readonly atMs: number;
  readonly what: string;
  /** Why it was not guaranteed; null: it was. */
  readonly excuse: string | null;
}

export class Invariants {
  readonly #log: Log;
  readonly #first = new Map<InvariantId, Breach>();
  readonly #counts = new Map<InvariantId, number>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** @param excuse why it is not guaranteed now; null: it is */
  broken(id: InvariantId, what: string, excuse: string | null): void {
    const atMs = this.#log.world.nowMs;
    this.#counts.set(id, (this.#counts.get(id) ?? 0) + 1);
    const first = this.#first.get(id);
    // A breach of a guarantee replaces an excused one.
    if (first && (first.excuse === null || excuse !== null)) return;
    this.#first.set(id, { atMs, what, excuse });
    const aside = excuse === null ? "" : ` (not guaranteed: ${excuse})`;
    this.#log.add("check", "invariant", `${INVARIANTS[id].name}: ${what}${aside}.`, true);
  }

  /** @param excuses why an invariant is not guaranteed at this moment; absent: it is */
  frame(excuses: Partial<Record<InvariantId, string | null>>): readonly InvariantFrame[] {
    return Object.entries(INVARIANTS).map(([key, { name, promise }]) => {
      const id = key as InvariantId;
      const first = this.#first.get(id);
      const excuse = first ? first.excuse : (excuses[id] ?? null);
      const aside = excuse === null ? "" : ` Not guaranteed now: ${excuse}.`;
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
