/**
 * The prefixes with most of something, in bounded space: Space-Saving (Metwally et al.). A prefix that
 * is not among the kept ones takes the place of the one with least, and inherits its count as its
 * possible error; what is told of it is `count - error`, which it certainly has.
 *
 *   kept, of 3:   tenant 40 · billing 12 · report 2        comes "export":
 *                 tenant 40 · billing 12 · export 3 (error 2, so 1 is certain)
 *
 * Whoever makes up more than 1/N of all is always among the kept.
 */

/** What stands for all others, and for resources that have no prefix. @internal */
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
 * Told of in the life of a process: each is a series for ever in whatever collects. Those that come
 * later are told of as `other`.
 */
const MOST_TOLD = 100;
/** A prefix that came up less is not told of: of many rare ones each would be kept for a moment. */
const LEAST_TOLD = 3;
/** So long a prefix is one as people write them, and no text that somebody has put into a name. */
const LONGEST_PREFIX = 64;

/** What a resource begins with, up to the first `/` or `:`; null when there is neither. @internal */
export function prefixOf(resource: string): string | null {
  const end = resource.search(/[/:]/);
  return end > 0 && end <= LONGEST_PREFIX ? resource.slice(0, end) : null;
}

export class TopPrefixes {
  readonly #kept = new Map<string, Kept>();
  readonly #told = new Set<string>();
  #total = 0;
  /** That `other` has been told as. */
  #most = 0;

  /** One more for the resource. */
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
    const told: Prefixed[] = [];
    for (const [prefix, { count, error }] of this.#kept) {
      if (count - error < LEAST_TOLD || !this.#mayTell(prefix)) continue;
      told.push({ prefix, count: count - error });
    }
    told.sort((a, b) => b.count - a.count);
    const certain = told.reduce((sum, { count }) => sum + count, 0);
    return [...told, { prefix: OTHER, count: this.#total - certain }];
  }

  /**
   * The same as counters: neither a count falls while its prefix is kept, nor `other`, although a
   * prefix that is told of for the first time leaves it.
   */
  totals(): Prefixed[] {
    return this.top().map(({ prefix, count }) => {
      if (prefix !== OTHER) return { prefix, count };
      this.#most = Math.max(this.#most, count);
      return { prefix, count: this.#most };
    });
  }

  #mayTell(prefix: string): boolean {
    if (this.#told.has(prefix)) return true;
    if (prefix === OTHER || this.#told.size >= MOST_TOLD) return false;
    this.#told.add(prefix);
    return true;
  }

  #least(): [string, Kept] | undefined {
    let least: [string, Kept] | undefined;
    for (const entry of this.#kept) if (!least || entry[1].count < least[1].count) least = entry;
    return least;
  }
}
