import { seededRandom } from "./manual-clock.js";

/** Far from the order of the list, and the same in every run. */
export function shuffled<T>(list: readonly T[]): T[] {
  const random = seededRandom(list.length);
  return list
    .map((value) => ({ value, rank: random.float() }))
    .sort((a, b) => a.rank - b.rank)
    .map(({ value }) => value);
}
