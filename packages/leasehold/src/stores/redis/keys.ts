/**
 * The keys. The resources of a namespace are spread over 16 parts, each with its index:
 *
 *   leasehold:{NAMESPACE:PART}            sorted set: the names of the part's resources, in byte order
 *   leasehold:{NAMESPACE:PART}:RESOURCE   hash: the last grant of the resource
 *   leasehold:{NAMESPACE:PART}line:RESOURCE   sorted set: its wait queue, see wait-queue.ts
 *   leasehold:hints:NAMESPACE             channel: freed resources, each with the waiter to wake
 *
 * The text in braces decides the cluster slot. So one script changes all keys of a resource, and a
 * batch needs at most 16 scripts, whatever its size.
 */
import type { Key } from "../../lease/index.js";

const PARTS = 16;
/** Percent-encoded form of each reserved byte. */
const CRC_OF_BYTE = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc;
});

export class Keys {
  /**
   * @param prefix precedes every key and channel
   */
  constructor(readonly prefix: string) {}

  /** Caches the last namespace, because most programs use one. */
  #last: { readonly namespace?: string; readonly indexes: readonly string[] } = { indexes: [] };

  record(key: Key): string {
    return `${this.indexOf(key)}:${key.resource}`;
  }
  /** The key of the wait queue. */
  queue(key: Key): string {
    return `${this.indexOf(key)}line:${key.resource}`;
  }
  indexOf({ namespace, resource }: Key): string {
    return this.#indexesOf(namespace)[partOf(resource)] as string;
  }
  /** The index keys of all parts of a namespace. */
  indexes(namespace: string): string[] {
    return [...this.#indexesOf(namespace)];
  }
  channel(namespace: string): string {
    return `${this.prefix}leasehold:hints:${namespace}`;
  }

  #indexesOf(namespace: string): readonly string[] {
    if (namespace === this.#last.namespace) return this.#last.indexes;
    // A brace would end the part that decides the slot, and names would collide.
    const name = namespace.replace(/[%{}]/g, encodeURIComponent);
    const indexes = Array.from(
      { length: PARTS },
      (_, part) => `${this.prefix}leasehold:{${name}:${part.toString(PARTS)}}`,
    );
    this.#last = { namespace, indexes };
    return indexes;
  }
}

function partOf(resource: string): number {
  return crcOf(resource) % PARTS;
}

/** Returns the cluster slot of a key, of 16,384. */
export function slotOf(key: string): number {
  const open = key.indexOf("{");
  const close = key.indexOf("}", open + 1);
  const tag = open >= 0 && close > open + 1 ? key.slice(open + 1, close) : key;
  return crcOf(tag) % 16_384;
}

/** CRC-16/XMODEM of the UTF-8 bytes, as the Redis Cluster specification requires. */
function crcOf(text: string): number {
  let crc = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    // Only an ASCII character is one byte. To encode a text costs more than all the rest.
    if (code > 127) return crcOfBytes(Buffer.from(text));
    crc = crcAfter(crc, code);
  }
  return crc;
}

function crcOfBytes(bytes: Uint8Array): number {
  return bytes.reduce(crcAfter, 0);
}

function crcAfter(crc: number, byte: number): number {
  return ((crc << 8) & 0xffff) ^ (CRC_OF_BYTE[(crc >> 8) ^ byte] as number);
}
