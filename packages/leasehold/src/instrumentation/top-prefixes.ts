/**
 * The prefixes with the largest counts, in bounded space: Space-Saving (Metwally et al.). A new prefix
 * replaces the one with the smallest count, and inherits that count as its possible error. The reported
 * value is `count - error`, a lower bound of the true count.
 *
 *   kept, of 3:   tenant 40 · billing 12 · report 2        comes "export":
 *                 tenant 40 · billing 12 · export 3 (error 2, so 1 is certain)
 *
 * With N kept prefixes, a prefix with more than 1/N of all events is always among them.
 */

/** Sums up all other prefixes, and resources without a prefix. @internal */
export const OTHER = "other";

export interface Prefixed {
  readonly prefix: string;
  readonly count: number;
}

interface Kept {
  count: number;
  error: number;
}

/** Kept at once. @internal */
export const MOST_PREFIXES = 20;
/**
 * The most prefixes that a process reports in its life: each becomes a time series that collectors keep.
 * Later ones are reported as `other`.
 */
const MOST_REPORTED = 100;
/** A prefix with a smaller count is not reported: many rare prefixes would each appear for a moment. */
const LEAST_REPORTED = 3;
/** A longer prefix is hardly one that people chose: it is more likely generated or user text. */
const LONGEST_PREFIX = 64;

/** The part of a resource before the first `/` or `:`; null if there is none or it is too long. @internal */
export function prefixOf(resource: string): string | null {
  const end = resource.search(/[/:]/);
  return end > 0 && end <= LONGEST_PREFIX ? resource.slice(0, end) : null;
}

export class TopPrefixes {
  readonly #kept = new Map<string, Kept>();
  readonly #reported = new Set<string>();
  #total = 0;
  /** The largest value that was reported for `other`. */
  #most = 0;

  /** Counts one event of the resource. */
  add(resource: string): void {
    this.#total += 1;
    const prefix = prefixOf(resource);
    if (prefix === null) return;
    const kept = this.#kept.get(prefix);
    if (kept) {
      kept.count += 1;
      return;
    }
    const least = this.#kept.size < MOST_PREFIXES ? undefined : this.#least();
    if (least) this.#kept.delete(least[0]);
    const error = least ? least[1].count : 0;
    this.#kept.set(prefix, { count: error + 1, error });
  }

  /** The certain counts, most first, and `other` for all the rest. */
  top(): Prefixed[] {
    const reported: Prefixed[] = [];
    for (const [prefix, { count, error }] of this.#kept) {
      if (count - error < LEAST_REPORTED || !this.#mayReport(prefix)) continue;
      reported.push({ prefix, count: count - error });
    }
    reported.sort((a, b) => b.count - a.count);
    const certain = reported.reduce((sum, { count }) => sum + count, 0);
    return [...reported, { prefix: OTHER, count: this.#total - certain }];
  }

  /**
   * The same as monotonic counters. A count does not fall while its prefix is kept. Neither does `other`,
   * although it loses the events of a prefix that is reported for the first time.
   */
  totals(): Prefixed[] {
    return this.top().map(({ prefix, count }) => {
      if (prefix !== OTHER) return { prefix, count };
      this.#most = Math.max(this.#most, count);
      return { prefix, count: this.#most };
    });
  }

  #mayReport(prefix: string): boolean {
    if (this.#reported.has(prefix)) return true;
    if (prefix === OTHER || this.#reported.size >= MOST_REPORTED) return false;
    this.#reported.add(prefix);
    return true;
  }

  #least(): [string, Kept] | undefined {
    let least: [string, Kept] | undefined;
    for (const entry of this.#kept) if (!least || entry[1].count < least[1].count) least = entry;
    return least;
  }
}
