/** The parameters of a store's URL: a misspelt one would have no effect, unnoticed. */
import { InvalidOptionError } from "./errors.js";

/** More changes than this make another word of it. */
const FARTHEST = 3;

/**
 * @param names of the parameters in the URL
 * @param own those that Leasehold knows in a URL of this scheme
 * @param passedOn those that the driver knows
 * @throws InvalidOptionError naming the parameter, the nearest known one and those of Leasehold
 */
export function checkParameters(
  scheme: string,
  names: Iterable<string>,
  own: readonly string[],
  passedOn: readonly string[] = [],
): void {
  const known = [...own, ...passedOn];
  for (const name of names) {
    if (known.includes(name)) continue;
    const nearest = nearestOf(name, known);
    const ask = nearest === undefined ? "" : `; did you mean ?${nearest}=`;
    const listed =
      own.length === 0
        ? "there are none"
        : `known are ${own.map((name) => `?${name}`).join(" and ")}`;
    const others = passedOn.length === 0 ? "" : ", and those of the driver";
    throw new InvalidOptionError(
      `url: ?${name}`,
      `is not a parameter of ${scheme} URLs (${listed}${others})${ask}`,
    );
  }
}

/**
 * Refuses `http://a:4040,http://b:4040`. Engines would take the second scheme for a host or a path.
 * @param path the option that has the URL
 * @throws InvalidOptionError without the URL, which may have a password
 */
export function checkOneScheme(path: string, url: string): void {
  const [, scheme] = /^([a-z+]+:\/\/)[^?#]*,\s*[a-z+]+:\/\//i.exec(url) ?? [];
  if (scheme === undefined) return;
  const example = `${scheme}host1,host2`;
  throw new InvalidOptionError(path, `must have its scheme once, before the hosts: ${example}`);
}

function nearestOf(name: string, known: readonly string[]): string | undefined {
  const text = name.toLowerCase();
  const ranked = known
    .map((other) => ({ other, far: distance(text, other.toLowerCase()) }))
    .sort((a, b) => a.far - b.far);
  const [best] = ranked;
  return best && best.far <= Math.min(FARTHEST, Math.ceil(text.length / 2))
    ? best.other
    : undefined;
}

/** How many letters to insert, delete or replace to make one of the other (Levenshtein). */
function distance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, at) => at);
  for (const [at, letter] of Array.from(one).entries()) {
    const next = [at + 1];
    for (let to = 1; to <= other.length; to += 1) {
      const replaced = (row[to - 1] ?? 0) + (letter === other[to - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[to] ?? 0) + 1, (next[to - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? 0;
}
