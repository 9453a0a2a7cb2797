/**
 * Which znode is what.
 *
 *   CHROOT/NAME                       the lock of resource NAME in the namespace `default`
 *   CHROOT/%ns/NAMESPACE/NAME         in another namespace
 *     _c_<uuid>-lock-0000000042       one contender: Curator's layout
 *   CHROOT/%queue/NAMESPACE/NAME      its wait queue, in `default` as well
 *     t-<uuid>-0000000042             one ticket
 *   CHROOT/%sync                      written to have a server catch up
 *
 * A name that may be a znode's stands as it is, so that a Curator client that locks CHROOT/NAME
 * contends with us. A percent sign never does: what we call `%...` is no resource's.
 */

import type { Key } from "../../core/index.js";
import { digestOf } from "../../env/index.js";

/** What no name of a znode may contain, and what we take for ourselves. */
const FORBIDDEN = /[%/\p{Cc}\ud800-\uf8ff\ufff0-\u{10ffff}]/u;
/** Names that mean something else where they stand alone. */
const RESERVED = /^(\.{1,2}|zookeeper)$/;
const DEFAULT_NAMESPACE = "default";

/** As the name of a znode; {@link nameOf} undoes it. @internal */
export function segmentOf(name: string): string {
  if (RESERVED.test(name)) return percent(name.charAt(0)) + name.slice(1);
  return Array.from(name, (char) => (FORBIDDEN.test(char) ? percent(char) : char)).join("");
}

/** Null for a znode that is none of ours. */
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
  /** @param chroot without a slash at its end; empty: the root */
  constructor(readonly chroot: string) {}

  get sync(): string {
    return `${this.chroot}/%sync`;
  }
  /** Parent of the namespaces but `default`. */
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
  /** Parent of the tickets for a lease. */
  queue({ namespace, resource }: Key): string {
    return `${this.queues}/${segmentOf(namespace)}/${segmentOf(resource)}`;
  }
  /** Which of the znodes in the folder of a namespace are resources' locks, by resource. */
  resources(namespace: string, segments: readonly string[]): string[] {
    return segments.flatMap((segment) => {
      // The server's own, in the root.
      if (segment === "zookeeper" && namespace === DEFAULT_NAMESPACE) return [];
      return nameOf(segment) ?? [];
    });
  }
}

/** All that lead to a znode, the topmost first, itself last. */
export function stepsTo(path: string): string[] {
  const parts = path.split("/").slice(1);
  return parts.map((_, at) => `/${parts.slice(0, at + 1).join("/")}`);
}

/**
 * The UUID by which a grant's znode is found again when the answer to its creation was lost. It follows
 * from the lease id, so that a repeated request finds what the first one made; it does not give it away.
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

/** How the ticket of this UUID begins. The server appends ten digits. */
export function ticketPrefix(uuid: string): string {
  return `t-${uuid}-`;
}

/** The tickets of a wait queue, in the order in which they came. */
export function ticketsInOrder(children: readonly string[]): string[] {
  const placeOf = (name: string) => name.slice(name.lastIndexOf("-"));
  return children
    .filter((name) => name.startsWith("t-"))
    .sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1));
}

/** Of the children of a lock, those who contend for it: the first has it. */
export function inOrder(children: readonly string[]): string[] {
  return children
    .filter((name) => name.includes("lock-"))
    .map((name) => ({ name, place: name.slice(name.lastIndexOf("lock-") + "lock-".length) }))
    .sort((a, b) => (a.place < b.place ? -1 : 1))
    .map(({ name }) => name);
}
