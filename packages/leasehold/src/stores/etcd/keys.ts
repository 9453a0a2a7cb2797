/**
 * The keys in etcd. All of them start with a `prefix` (the path of the URL, empty by default):
 *
 *   <resource>/<engine lease, hex>                              locks of the namespace `default`
 *   %leasehold/lock/<namespace>/<resource>/<engine lease, hex>  locks of the others
 *   %leasehold/record/<namespace>/<resource as it is>           the last grant of each resource
 *   %leasehold/queue/<namespace>/<resource>/<leaseId>           its waiters
 *   %leasehold/bell/<resource>/<leaseId>                        the waiters' bells, in the namespace `default`
 *   %leasehold/lock/<namespace>/%leasehold/bell/<resource>/...  those of the others
 *
 * Bells are in the range of the locks, so that one watch covers both.
 *
 * The first is the layout of etcd's own locks and elections, so they contend with Leasehold's. Names
 * escape `%` and `/`. So no lock is below another's folder, and none is below `%leasehold`, because an
 * escaped name never has an `l` after `%`. A record is one key; records sort by the bytes of their
 * resources.
 */
import type { Key } from "../../lease/index.js";

const OURS = "%leasehold/";
const DEFAULT_NAMESPACE = "default";

/** The range from `start` (inclusive) to `end` (exclusive). */
export interface KeyRange {
  readonly start: string;
  readonly end: string;
}

/** The keys of one resource. A renewal needs the record's alone, so the others are made when they are read. */
export class Place {
  readonly record: string;
  readonly #prefix: string;
  readonly #key: Key;
  #escaped: string | undefined;

  constructor(prefix: string, key: Key) {
    this.#prefix = prefix;
    this.#key = key;
    this.record = recordFolder(prefix, key.namespace) + key.resource;
  }

  /**
   * The folder of the lock keys, with a trailing slash: the holder, and waiters of etcd's own clients.
   */
  get locks(): string {
    return locksFolder(this.#prefix, this.#key.namespace) + this.#folder;
  }

  /** The folder of the waiters, with a trailing slash. */
  get queueFolder(): string {
    return `${this.#prefix}${OURS}queue/${escapeName(this.#key.namespace)}/${this.#folder}`;
  }

  /** The folder of the waiters' bells, with a trailing slash. */
  get bells(): string {
    return bellsFolder(this.#prefix, this.#key.namespace) + this.#folder;
  }

  get #folder(): string {
    this.#escaped ??= `${escapeName(this.#key.resource)}/`;
    return this.#escaped;
  }
}

/** The common prefix of the records of one namespace, or of all. */
export function recordFolder(prefix: string, namespace?: string): string {
  const all = `${prefix}${OURS}record/`;
  return namespace === undefined ? all : `${all}${escapeName(namespace)}/`;
}

/** Parses the key of a record, given the common prefix of all records. */
export function keyOfRecord(prefix: string, record: string): Key | null {
  const path = record.slice(recordFolder(prefix).length);
  const slash = path.indexOf("/");
  const namespace = unescapeName(path.slice(0, slash));
  const resource = path.slice(slash + 1);
  return slash > 0 && namespace && resource ? { namespace, resource } : null;
}

/** A range that includes all lock keys and bells of a namespace. */
export function locksRange(prefix: string, namespace: string): KeyRange {
  return below(locksFolder(prefix, namespace));
}

/** Returns the resource of a lock key; null if it is no lock of this namespace. */
export function resourceOfLock(prefix: string, namespace: string, key: string): string | null {
  const folder = locksFolder(prefix, namespace);
  if (!key.startsWith(folder)) return null;
  const [name = "", lease = "", ...more] = key.slice(folder.length).split("/");
  return more.length === 0 && /^[0-9a-f]+$/.test(lease) ? unescapeName(name) : null;
}

/** Returns the waiter of a bell key; null if it is no bell of this namespace. */
export function ownerOfBell(
  prefix: string,
  namespace: string,
  key: string,
): { readonly resource: string; readonly leaseId: string } | null {
  const folder = bellsFolder(prefix, namespace);
  if (!key.startsWith(folder)) return null;
  const [name = "", leaseId = "", ...more] = key.slice(folder.length).split("/");
  const resource = unescapeName(name);
  return more.length === 0 && leaseId !== "" && resource ? { resource, leaseId } : null;
}

/** The range of all keys with the prefix; for an empty prefix, of all keys. */
export function below(text: string): KeyRange {
  if (text === "") return { start: "\0", end: "\0" };
  // Every prefix here ends with a slash, whose successor is 0.
  return { start: text, end: `${text.slice(0, -1)}0` };
}

function locksFolder(prefix: string, namespace: string): string {
  if (namespace === DEFAULT_NAMESPACE) return prefix;
  return `${prefix}${OURS}lock/${escapeName(namespace)}/`;
}

function bellsFolder(prefix: string, namespace: string): string {
  return `${locksFolder(prefix, namespace)}${OURS}bell/`;
}

function escapeName(name: string): string {
  return name.replaceAll("%", "%25").replaceAll("/", "%2F");
}

/** Returns null for text that {@link escapeName} never produces. */
function unescapeName(text: string): string | null {
  const name = text.replaceAll("%2F", "/").replaceAll("%25", "%");
  return text !== "" && escapeName(name) === text ? name : null;
}

/** The end of the range of all keys with the prefix, whatever its last character is. */
export function endOfPrefix(text: string): string {
  const before = Array.from(text);
  const next = (before.pop()?.codePointAt(0) ?? 0) + 1;
  if (next > 0x10ffff) return endOfPrefix(before.join(""));
  // UTF-8 has the order of code points, and no surrogates.
  return before.join("") + String.fromCodePoint(next === 0xd800 ? 0xe000 : next);
}
