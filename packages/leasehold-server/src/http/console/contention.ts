/**
 * Counts of contended and lost leases of each tenant, for the prefixes with the most. The counts are
 * bounded, cover this instance since its start, and are not stored.
 */
import type { Clock } from "leasehold";
import { type Named, TopNames } from "leasehold/internal";

/** held: acquires that found the resource held; lost: refused renewals. */
type Trouble = "held" | "lost";

export interface PrefixTrouble {
  /** Resources up to the first `/` or `:`, or whole if they have none; null: all others together. */
  readonly prefix: string | null;
  readonly held: number;
  readonly lost: number;
}

export class Contention {
  readonly #clock: Clock;
  readonly #sinceMs: number;
  readonly #tenants = new Map<string, Readonly<Record<Trouble, TopNames>>>();

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#sinceMs = clock.monotonic();
  }

  note(trouble: Trouble, namespace: string, resource: string): void {
    let own = this.#tenants.get(namespace);
    if (!own) {
      own = { held: this.#top(), lost: this.#top() };
      this.#tenants.set(namespace, own);
    }
    own[trouble].add(resource);
  }

  #top(): TopNames {
    return new TopNames(undefined, this.#clock);
  }

  /** Highest counts first, all other prefixes last. */
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

/** The last item of the list counts all other prefixes. */
function split(counted: TopNames | undefined): {
  top: ReadonlyMap<string, number>;
  rest: number;
} {
  const all = counted?.top() ?? [];
  const top = all.slice(0, -1).map(({ name, count }: Named) => [name, count] as const);
  return { top: new Map(top), rest: all.at(-1)?.count ?? 0 };
}
