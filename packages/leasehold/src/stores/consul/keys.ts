/**
 * The keys in Consul. All of them start with a `prefix` (the path of the URL, by default `leasehold/`):
 *
 *   <namespace>/<resource>/.lock             the holder: held by its client's session
 *   <namespace>/<resource>/.record           the last grant
 *   <namespace>/<resource>/.queue/<waiter>   its waiters, each held by its client's session
 *   %bells/<session>/                        the mailbox of a client, held by its session
 *   %bells/<session>/<waiter>                wakes this waiter
 *   %renewals/<session>                      when this client last renewed leases
 *
 * The first is the key of `consul lock <prefix><namespace>/<resource>`, so both exclude each other. One
 * `get-tree` of `.` reads all of a resource. Names escape `%` and `/`, so no namespace begins with `%b` or `%r`.
 */
import { digestOf } from "../../env/index.js";
import type { Key } from "../../lease/index.js";

/** The keys of one resource. */
export interface Place {
  /** What all others begin with. */
  readonly folder: string;
  readonly lock: string;
  readonly record: string;
  readonly queue: string;
  /** The mailboxes of all clients. */
  readonly bells: string;
}

export function placeOf(prefix: string, { namespace, resource }: Key): Place {
  const folder = `${recordsBelow(prefix, namespace)}${escapeName(resource)}/.`;
  return {
    folder,
    lock: `${folder}lock`,
    record: `${folder}record`,
    queue: `${folder}queue/`,
    bells: bellsFolder(prefix),
  };
}

/** What the keys of all resources with this prefix begin with. */
export function recordsBelow(prefix: string, namespace: string, resourcePrefix = ""): string {
  return `${prefix}${escapeName(namespace)}/${escapeName(resourcePrefix)}`;
}

/** The folder of the resource of any of its keys; null for other keys. */
export function folderOf(prefix: string, key: string): string | null {
  const [namespace = "", resource = "", part] = key.slice(prefix.length).split("/");
  if (!key.startsWith(prefix) || !part?.startsWith(".")) return null;
  return `${prefix}${namespace}/${resource}/.`;
}

/** The namespace and the resource of a folder; null if Leasehold did not name it. */
export function keyOfFolder(prefix: string, folder: string): Key | null {
  const [first = "", second = ""] = folder.slice(prefix.length).split("/");
  const [namespace, resource] = [unescapeName(first), unescapeName(second)];
  return namespace !== null && resource !== null ? { namespace, resource } : null;
}

export function mailboxOf(prefix: string, session: string): string {
  return `${bellsFolder(prefix)}${session}/`;
}

/** What the keys of all clients' renewals begin with. */
export function renewalsFolder(prefix: string): string {
  return `${prefix}%renewals/`;
}

function bellsFolder(prefix: string): string {
  return `${prefix}%bells/`;
}

/**
 * Identifies a grant in keys and records. Readers of the store cannot recover the lease id, which would allow
 * them to release the lease.
 */
export function identityOf(leaseId: string): string {
  return digestOf(`consul ${leaseId}`).slice(0, 32);
}

function escapeName(name: string): string {
  return name.replaceAll("%", "%25").replaceAll("/", "%2F");
}

/** Returns null for text that {@link escapeName} never produces. */
function unescapeName(text: string): string | null {
  const name = text.replaceAll("%2F", "/").replaceAll("%25", "%");
  return text !== "" && escapeName(name) === text ? name : null;
}
