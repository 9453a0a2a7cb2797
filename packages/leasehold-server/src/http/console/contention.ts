/**
 * Where a tenant's leases are contended for or get lost, by the prefixes with most of it: bounded, and
 * each tenant sees its own alone. Counted by this instance since it began, and kept nowhere.
 */
import type { Clock } from "leasehold";
import { type Prefixed, TopPrefixes } from "leasehold/internal";

/** held: acquires that somebody else's lease was in the way of; lost: renewals that were refused. */
type Trouble = "held" | "lost";

export interface PrefixTrouble {
  /** What resources begin with, up to the first `/` or `:`; null: all others together. */
  readonly prefix: string | null;
  readonly held: number;
  readonly lost: number;
}

export class Contention {
  readonly #clock: Clock;
  readonly #sinceMs: number;
  readonly #tenants = new Map<string, Readonly<Record<Trouble, TopPrefixes>>>();

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#sinceMs = clock.monotonic();
  }

  note(trouble: Trouble, namespace: string, resource: string): void {
    let own = this.#tenants.get(namespace);
    if (!own) {
      own = { held: new TopPrefixes(), lost: new TopPrefixes() };
      this.#tenants.set(namespace, own);
    }
    own[trouble].add(resource);
  }

  /** Those with most trouble first, the rest last. */
  of(namespace: string): { readonly forMs: number; readonly items: PrefixTrouble[] } {
    const own = this.#tenants.get(namespace);
    const held = split(own?.held);
    const lost = split(own?.lost);
    const items: PrefixTrouble[] = [...new Set([...held.top.keys(), ...lost.top.keys()])].map(
      (prefix) => ({ prefix, held: held.top.get(prefix) ?? 0, lost: lost.top.get(prefix) ?? 0 }),
    );
    items.sort((a, b) => b.held + b.lost - (a.held + a.lost));
    if (held.rest + lost.rest > 0) items.push({ prefix: null, held: held.rest, lost: lost.rest });
    return { forMs: Math.floor(this.#clock.monotonic() - this.#sinceMs), items };
  }
}

/** The last of the list stands for all others. */
function split(counted: TopPrefixes | undefined): {
  top: ReadonlyMap<string, number>;
  rest: number;
} {
  const all = counted?.top() ?? [];
  const top = all.slice(0, -1).map(({ prefix, count }: Prefixed) => [prefix, count] as const);
  return { top: new Map(top), rest: all.at(-1)?.count ?? 0 };
}
