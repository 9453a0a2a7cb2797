/**
 * Where things lie in etcd. A `prefix` (the path of the URL, empty by default) stands before all:
 *
 *   <resource>/<engine lease, hex>                              locks of the namespace `default`
 *   %leasehold/lock/<namespace>/<resource>/<engine lease, hex>  locks of the others
 *   %leasehold/record/<namespace>/<resource as it is>           the last grant of each resource
 *   %leasehold/queue/<namespace>/<resource>/<grantId>           tickets of those who wait for it
 *   %leasehold/bell/<resource>/<grantId>                        their bells, in the namespace `default`
 *   %leasehold/lock/<namespace>/%leasehold/bell/<resource>/...  those of the others
 *
 * A bell lies where locks do, so that one watch hears both.
 *
 * The first is the layout of etcd's own locks and elections, so that ours and theirs contend. In names
 * `%` and `/` are escaped: no lock lies below another's folder, and none in ours, because an escaped
 * name never has an `l` behind its `%`. A record is one key, and ordered by its resource's bytes.
 */
import type { Key } from "../../core/index.js";

const OURS = "%leasehold/";
const DEFAULT_NAMESPACE = "default";

/** From `start` on, before `end`. */
export interface KeyRange {
  readonly start: string;
  readonly end: string;
}

/** Where the keys of one resource are. */
export interface Place {
  readonly record: string;
  /** Ends with a slash: what lies below it are the holder and those who wait in etcd's own way. */
  readonly locks: string;
  /** The folders of those who wait in our way; both end with a slash. */
  readonly tickets: string;
  readonly bells: string;
}

export function placeOf(prefix: string, { namespace, resource }: Key): Place {
  const name = `${escapeName(resource)}/`;
  return {
    record: recordFolder(prefix, namespace) + resource,
    locks: locksFolder(prefix, namespace) + name,
    tickets: `${prefix}${OURS}queue/${escapeName(namespace)}/${name}`,
    bells: bellsFolder(prefix, namespace) + name,
  };
}

/** Of the records of a namespace, or of all of them: each begins with this. */
export function recordFolder(prefix: string, namespace?: string): string {
  const all = `${prefix}${OURS}record/`;
  return namespace === undefined ? all : `${all}${escapeName(namespace)}/`;
}

/** The key of a record, given what all records of all namespaces begin with. */
export function keyOfRecord(prefix: string, record: string): Key | null {
  const path = record.slice(recordFolder(prefix).length);
  const slash = path.indexOf("/");
  const namespace = unescapeName(path.slice(0, slash));
  const resource = path.slice(slash + 1);
  return slash > 0 && namespace && resource ? { namespace, resource } : null;
}

/** All lock keys and bells of a namespace, and perhaps more. */
export function locksRange(prefix: string, namespace: string): KeyRange {
  return below(locksFolder(prefix, namespace));
}

/** Whose lock a key is; null when it is no lock of this namespace. */
export function resourceOfLock(prefix: string, namespace: string, key: string): string | null {
  const folder = locksFolder(prefix, namespace);
  if (!key.startsWith(folder)) return null;
  const [name = "", lease = "", ...more] = key.slice(folder.length).split("/");
  return more.length === 0 && /^[0-9a-f]+$/.test(lease) ? unescapeName(name) : null;
}

/** Whose bell a key is; null when it is none of this namespace. */
export function ownerOfBell(
  prefix: string,
  namespace: string,
  key: string,
): { readonly resource: string; readonly grantId: string } | null {
  const folder = bellsFolder(prefix, namespace);
  if (!key.startsWith(folder)) return null;
  const [name = "", grantId = "", ...more] = key.slice(folder.length).split("/");
  const resource = unescapeName(name);
  return more.length === 0 && grantId !== "" && resource ? { resource, grantId } : null;
}

/** All keys that begin with the text; of the empty one, all keys there are. */
export function below(text: string): KeyRange {
  if (text === "") return { start: "\0", end: "\0" };
  // Every text that is asked for here ends with a slash, whose successor is 0.
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

/** Null for what {@link escapeName} never makes. */
function unescapeName(text: string): string | null {
  const name = text.replaceAll("%2F", "/").replaceAll("%25", "%");
  return text !== "" && escapeName(name) === text ? name : null;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** The API takes and gives bytes in base64. */
export function toBase64(text: string): string {
  // Most texts are their own bytes.
  return /^\p{ASCII}*$/u.test(text) ? btoa(text) : bytesToBase64(encoder.encode(text));
}

/** The end of a range of all that begin with the bytes of a text, whatever its last one is. */
export function endOfPrefix(text: string): string {
  const bytes = encoder.encode(text);
  // No byte of UTF-8 is 255.
  const last = bytes.length - 1;
  bytes[last] = (bytes[last] ?? 0) + 1;
  return bytesToBase64(bytes);
}

export function fromBase64(text: string): string {
  return decoder.decode(Uint8Array.from(atob(text), (character) => character.charCodeAt(0)));
}

function bytesToBase64(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}
