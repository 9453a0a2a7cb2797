/**
 * The names with the largest counts, in bounded space: Space-Saving (Metwally et al.). A new name
 * replaces the one with the smallest count, and inherits that count as its possible error. The reported
 * value is `count - error`, a lower bound of the true count.
 *
 *   kept, of 3:   tenant 40 · billing 12 · report 2        comes "export":
 *                 tenant 40 · billing 12 · export 3 (error 2, so 1 is certain)
 *
 * With N kept names, a name with more than 1/N of all events is always among them.
 */
import { type Clock, systemClock } from "../env/index.js";

/** The name of all names that are not reported: empty, which no resource can be. @internal */
export const REST = "";

export interface Named {
  readonly name: string;
  readonly count: number;
}

interface Kept {
  count: number;
  error: number;
  isReported: boolean;
}

/** Kept at once. @internal */
export const MOST_NAMES = 20;
/**
 * OpenTelemetry's SDK exports a name for ever once it was reported, and collectors keep a time series of it. So
 * a process reports this many at once, then one more every 15 minutes; until then the others are in the rest.
 */
const MOST_NEW = 100;
const NEW_EVERY_MS = 15 * 60_000;
/** Above 2,000 series of one metric the SDK sums up all further ones. */
const MOST_EVER = 1_500;

/**
 * The first segments of a resource, which `/` and `:` separate; the whole resource if it has no more.
 * With depth 2, `tenant:billing:2026-04` gives `tenant:billing`.
 * @param depth the number of segments, at least 1
 */
export function prefixOf(resource: string, depth = 1): string {
  let segments = 0;
  // A separator at the beginning separates nothing.
  for (const { index } of resource.slice(1).matchAll(/[/:]/g)) {
    segments += 1;
    if (segments === depth) return resource.slice(0, index + 1);
  }
  return resource;
}

export class TopNames {
  readonly #nameOf: (resource: string) => string;
  readonly #clock: Clock;
  readonly #kept = new Map<string, Kept>();
  #total = 0;
  /** The largest value that was reported for the rest. */
  #most = 0;
  #mayBeNew = MOST_NEW;
  readonly #ever = new Set<string>();
  #refilledAtMs: number;

  /** @param nameOf default: the prefix of one segment */
  constructor(nameOf: (resource: string) => string = prefixOf, clock: Clock = systemClock) {
    this.#nameOf = nameOf;
    this.#clock = clock;
    this.#refilledAtMs = clock.monotonic();
  }

  /** Counts one event of the resource. The empty name counts in the rest. */
  add(resource: string): void {
    this.#total += 1;
    const name = this.#nameOf(resource);
    if (name === REST) return;
    const kept = this.#kept.get(name);
    if (kept) {
      kept.count += 1;
      return;
    }
    const least = this.#kept.size < MOST_NAMES ? undefined : this.#least();
    if (least) this.#kept.delete(least[0]);
    const error = least ? least[1].count : 0;
    this.#kept.set(name, { count: error + 1, error, isReported: false });
  }

  /** The certain counts, most first, and last that of the {@link REST}. */
  top(): Named[] {
    this.#refill();
    const kept = [...this.#kept]
      .map(([name, entry]) => ({ name, entry, count: entry.count - entry.error }))
      .sort((a, b) => b.count - a.count);
    const reported: Named[] = [];
    let rest = this.#total;
    for (const { name, entry, count } of kept) {
      if (!this.#mayReport(name, entry)) continue;
      reported.push({ name, count });
      rest -= count;
    }
    return [...reported, { name: REST, count: rest }];
  }

  /**
   * The same as monotonic counters. A count does not fall while its name is kept. Neither does the rest,
   * although it loses the events of a name that is reported for the first time.
   */
  totals(): Named[] {
    return this.top().map(({ name, count }) => {
      if (name !== REST) return { name, count };
      this.#most = Math.max(this.#most, count);
      return { name, count: this.#most };
    });
  }

  #mayReport(name: string, entry: Kept): boolean {
    if (entry.isReported) return true;
    if (!this.#ever.has(name)) {
      if (this.#mayBeNew < 1 || this.#ever.size >= MOST_EVER) return false;
      this.#mayBeNew -= 1;
      this.#ever.add(name);
    }
    entry.isReported = true;
    return true;
  }

  #refill(): void {
    const passed = Math.floor((this.#clock.monotonic() - this.#refilledAtMs) / NEW_EVERY_MS);
    this.#refilledAtMs += passed * NEW_EVERY_MS;
    this.#mayBeNew = Math.min(MOST_NEW, this.#mayBeNew + passed);
  }

  #least(): [string, Kept] | undefined {
    let least: [string, Kept] | undefined;
    for (const entry of this.#kept) if (!least || entry[1].count < least[1].count) least = entry;
    return least;
  }
}
