/**
 * The names of the znodes.
 *
 *   CHROOT/NAME                       the lock of resource NAME in the namespace `default`
 *   CHROOT/%ns/NAMESPACE/NAME         in another namespace
 *     _c_<uuid>-lock-0000000042       one contender: Curator's layout
 *   CHROOT/%queue/NAMESPACE/NAME      its wait queue, in `default` as well
 *     t-<uuid>-0000000042             one waiter
 *   CHROOT/%sync                      written to sync a server
 *
 * A valid znode name is used unchanged, so a Curator client that locks CHROOT/NAME contends with
 * Leasehold. A percent sign is always escaped: no resource is named `%...`.
 */

import { digestOf } from "../../env/index.js";
import type { Key } from "../../lease/index.js";

/** Characters that znode names may not contain, and those that Leasehold reserves. */
const FORBIDDEN = /[%/\p{Cc}\ud800-\uf8ff\ufff0-\u{10ffff}]/u;
/** Names with a special meaning for ZooKeeper. */
const RESERVED = /^(\.{1,2}|zookeeper)$/;
const DEFAULT_NAMESPACE = "default";

/** Encodes a name as a znode name; {@link nameOf} decodes it. @internal */
export function segmentOf(name: string): string {
  if (RESERVED.test(name)) return percent(name.charAt(0)) + name.slice(1);
  return Array.from(name, (char) => (FORBIDDEN.test(char) ? percent(char) : char)).join("");
}

/** Decodes a znode name; null if Leasehold did not create it. */
export function nameOf(segment: string): string | null {
  try {
    const name = decodeURIComponent(segment);
    return segmentOf(name) === segment ? name : null;
  } catch {
    return null;
  }
}

function percent(char: string): string {
  return Array.from(new TextEncoder().encode(char), (byte) => {
    return `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }).join("");
}

export class Paths {
  /**
   * @param chroot without a trailing slash; empty for the root
   */
  constructor(readonly chroot: string) {}

  get sync(): string {
    return `${this.chroot}/%sync`;
  }
  /** Parent of all namespaces except `default`. */
  get namespaces(): string {
    return `${this.chroot}/%ns`;
  }
  /** Parent of a namespace's locks; empty for the root. */
  namespace(name: string): string {
    return name === DEFAULT_NAMESPACE ? this.chroot : `${this.namespaces}/${segmentOf(name)}`;
  }
  /** Parent of the contenders for a lease. */
  lock({ namespace, resource }: Key): string {
    return `${this.namespace(namespace)}/${segmentOf(resource)}`;
  }
  /** Parent of the wait queues, by namespace. */
  get queues(): string {
    return `${this.chroot}/%queue`;
  }
  /** Parent of the waiters for a lease. */
  queue({ namespace, resource }: Key): string {
    return `${this.queues}/${segmentOf(namespace)}/${segmentOf(resource)}`;
  }
  /** Maps resources to their locks, among the znodes in the folder of a namespace. */
  resources(namespace: string, segments: readonly string[]): string[] {
    return segments.flatMap((segment) => {
      // ZooKeeper's own znode, in the root.
      if (segment === "zookeeper" && namespace === DEFAULT_NAMESPACE) return [];
      return nameOf(segment) ?? [];
    });
  }
}

/** The path's ancestors, topmost first, and the path itself last. */
export function stepsTo(path: string): string[] {
  const parts = path.split("/").slice(1);
  return parts.map((_, at) => `/${parts.slice(0, at + 1).join("/")}`);
}

/**
 * The UUID in the name of a grant's znode, which finds the znode after a lost response. It is derived
 * from the lease id, so a repeated request finds the znode of the first one. It does not reveal the
 * lease id.
 */
export function contenderOf(leaseId: string): string {
  const hex = digestOf(`zookeeper ${leaseId}`);
  const cuts = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20)];
  return [...cuts, hex.slice(20, 32)].join("-");
}

/** The server appends ten digits. */
export function contenderPrefix(uuid: string): string {
  return `_c_${uuid}-lock-`;
}

/** The name prefix of the waiter with this UUID. The server appends ten digits. */
export function waiterPrefix(uuid: string): string {
  return `t-${uuid}-`;
}

/** Returns the waiters of a wait queue, in queue order. */
export function waitersInOrder(children: readonly string[]): string[] {
  const placeOf = (name: string) => name.slice(name.lastIndexOf("-"));
  return children
    .filter((name) => name.startsWith("t-"))
    .sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));
}

/** Returns the contenders among the children of a lock; the first holds the lock. */
export function inOrder(children: readonly string[]): string[] {
  return children
    .filter((name) => name.includes("lock-"))
    .map((name) => ({ name, place: name.slice(name.lastIndexOf("lock-") + "lock-".length) }))
    .sort((a, b) => (a.place < b.place ? -1 : 1))
    .map(({ name }) => name);
}
