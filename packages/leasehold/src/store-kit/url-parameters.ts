/** The parameters of a store's URL: a misspelt name or value would have no effect, unnoticed. */
import { InvalidOptionError } from "../lease/index.js";

/** More changes than this make another word of it. */
const FARTHEST = 3;

/**
 * Returns what is wrong with a value, or null. It never quotes the value, which may be a part of a password in a URL that
 * is not encoded.
 */
type ValueCheck = (value: string) => string | null;

/** By the name of the parameter. */
export type ParameterTable = Readonly<Record<string, ValueCheck>>;

/** Any text, but an empty one: a variable may have been empty. */
export const anyText: ValueCheck = (value) => (value === "" ? "must not be empty" : null);

export const filePath: ValueCheck = (value) => anyText(value) ?? pathProblem(value);

export function oneOf(...allowed: readonly string[]): ValueCheck {
  return (value) => {
    if (allowed.includes(value)) return null;
    const listed = allowed.filter((word) => word !== "").map((word) => `"${word}"`);
    return `must be ${listed.join(" or ")}`;
  };
}

export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): ValueCheck {
  return (value) => {
    if (/^\d+$/.test(value) && Number(value) >= least && Number(value) <= most) return null;
    return `must be a whole number from ${least} to ${most}, in digits`;
  };
}

/**
 * Reads the parameters of a URL.
 * @param query without the question mark
 * @param own those that Leasehold knows in a URL of this scheme
 * @param ofDriver those that the driver knows
 * @throws InvalidOptionError naming the parameter: it is unknown (with the nearest known one and those of Leasehold), given
 *   twice, not percent-encoded, or has a value that is not allowed
 */
export function readParameters(
  scheme: string,
  query: string,
  own: ParameterTable,
  ofDriver: ParameterTable = {},
): URLSearchParams {
  if (!isEncoded(query)) throw wrong("url", "must have its parameters percent-encoded");
  const parameters = new URLSearchParams(query);
  const names = [...parameters.keys()];
  const known = { ...ofDriver, ...own };
  for (const [name, value] of parameters) {
    const check = Object.hasOwn(known, name) ? known[name] : undefined;
    if (check === undefined) throw unknownParameter(scheme, name, own, ofDriver);
    if (names.indexOf(name) !== names.lastIndexOf(name)) {
      throw wrong(`url: ?${name}`, "is given twice: remove one of them");
    }
    const problem = check(value);
    if (problem !== null) throw wrong(`url: ?${name}`, problem);
  }
  return parameters;
}

function unknownParameter(
  scheme: string,
  name: string,
  own: ParameterTable,
  ofDriver: ParameterTable,
): InvalidOptionError {
  if (!/^[\w.-]{1,40}$/.test(name)) {
    return wrong("url", "has a parameter without a name: percent-encode ? and & of a password");
  }
  const [ours, others] = [Object.keys(own), Object.keys(ofDriver)];
  const nearest = nearestOf(name, [...ours, ...others]);
  const ask = nearest === undefined ? "" : `; did you mean ?${nearest}=`;
  const listed =
    ours.length === 0
      ? "there are none"
      : `known are ${ours.map((name) => `?${name}`).join(" and ")}`;
  const more = others.length === 0 ? "" : ", and those of the driver";
  return wrong(`url: ?${name}`, `is not a parameter of ${scheme} URLs (${listed}${more})${ask}`);
}

/** Whether all percent signs begin the encoding of a character. */
export function isEncoded(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** What is wrong with a path that only a shell would understand; null if nothing is. */
export function pathProblem(path: string): string | null {
  if (path.startsWith("~")) {
    return "must not begin with ~, which only a shell expands: write the whole path, or $HOME in a shell";
  }
  if (/^\$|\$\{/.test(path)) return "has a variable that was not expanded: write its value";
  return path === path.trim() ? null : "must not begin or end with a space";
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
  throw wrong(path, `must have its scheme once, before the hosts: ${example}`);
}

/**
 * Refuses `redis://$HOST:6379`, `memory:$NAME` and `postgres://host/${NAME}`, which only a shell or a template expands. A `$` of
 * a user or a password stays allowed.
 * @param path the option that has the URL
 * @throws InvalidOptionError without the URL, which may have a password
 */
export function checkExpanded(path: string, url: string): void {
  const [place = ""] = url
    .replace(/^[a-z+]+:(\/\/.*@)?/is, (begin) => (begin.endsWith("@") ? "//" : ""))
    .split(/[?#]/);
  if (!/^\/\/[^/]*\$|^\/\/.*\/\$|^\$|\$\{/s.test(place)) return;
  throw wrong(path, "has a variable that was not expanded: write its value");
}

/**
 * Refuses a fragment in the URL of a server, which would be lost: it may be the rest of a password.
 * @param path the option that has the URL
 * @throws InvalidOptionError without the URL, which may have a password
 */
export function checkNoFragment(path: string, url: string): void {
  if (!/^[a-z+]+:\/\/[^#]*#/i.test(url)) return;
  throw wrong(path, "must not have a fragment: remove #, or write %23");
}

/** The known name that was probably meant; undefined if none is near. */
export function nearestOf(name: string, known: readonly string[]): string | undefined {
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

function wrong(path: string, problem: string): InvalidOptionError {
  return new InvalidOptionError(path, problem);
}

/** A host of a list in a URL, with or without its port. */
const HOST = /^(?:\[[\da-f:.]+\]|[^\s:/\\?#@[\]]+)(?::([1-9]\d{0,4}))?$/i;

/**
 * The origin of one host of a list, which `new URL` would take for another one if it has a backslash or port 0.
 * @throws InvalidOptionError
 */
export function originOf(host: string, scheme: "http" | "https", defaultPort: number): string {
  const found = HOST.exec(host);
  const port = Number(found?.[1] ?? defaultPort);
  const text = `${scheme}://${host}`;
  if (!found || port > 65_535 || !URL.canParse(text)) {
    throw wrong(
      "url",
      `must name hosts like host:${defaultPort}, separated by commas, with ports from 1 to 65535`,
    );
  }
  const url = new URL(text);
  // URL drops the default port of the scheme itself.
  if (found[1] === undefined) url.port = String(defaultPort);
  return url.origin;
}
