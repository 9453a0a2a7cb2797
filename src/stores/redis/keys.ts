/**
 * Where things lie. Of each namespace the resources are spread over 16 parts, each with its index:
 *
 *   leasehold:{NAMESPACE:PART}            sorted set: the names of the part's resources, in the order of bytes
 *   leasehold:{NAMESPACE:PART}:RESOURCE   hash: the last grant of the resource
 *   leasehold:{NAMESPACE:PART}line:RESOURCE, ...ends:RESOURCE, ...waiters:RESOURCE   see line.ts
 *   leasehold:hints:NAMESPACE             channel: resources that have become free, and for whom
 *
 * What stands in braces decides the slot of a cluster, so that all keys of a resource change in one
 * script, and a batch needs 16 scripts at most, however many resources it is about.
 */
import type { Key } from "../../lease/index.js";

const PARTS = 16;

export class Keys {
  /** @param prefix before each of them */
  constructor(readonly prefix: string) {}

  record({ namespace, resource }: Key): string {
    return `${this.index(namespace, partOf(resource))}:${resource}`;
  }
  indexOf({ namespace, resource }: Key): string {
    return this.index(namespace, partOf(resource));
  }
  /** Of those who wait. */
  line(key: Key): [line: string, ends: string, waiters: string] {
    const index = this.indexOf(key);
    const of = (kind: string) => `${index}${kind}:${key.resource}`;
    return [of("line"), of("ends"), of("waiters")];
  }
  /** Of all parts of a namespace. */
  indexes(namespace: string): string[] {
    return Array.from({ length: PARTS }, (_, part) => this.index(namespace, part));
  }
  channel(namespace: string): string {
    return `${this.prefix}leasehold:hints:${namespace}`;
  }

  private index(namespace: string, part: number): string {
    // A brace would end the part that decides the slot, and names would run into each other.
    const name = namespace.replace(/[%{}]/g, encodeURIComponent);
    return `${this.prefix}leasehold:{${name}:${part.toString(PARTS)}}`;
  }
}

function partOf(resource: string): number {
  return crc16(Buffer.from(resource)) % PARTS;
}

/** Which of the 16,384 slots of a cluster a key lies in. */
export function slotOf(key: string): number {
  const open = key.indexOf("{");
  const close = key.indexOf("}", open + 1);
  const tag = open >= 0 && close > open + 1 ? key.slice(open + 1, close) : key;
  return crc16(Buffer.from(tag)) % 16_384;
}

/** CRC-16/XMODEM, as the specification of Redis Cluster says. */
function crc16(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
    crc &= 0xffff;
  }
  return crc;
}
