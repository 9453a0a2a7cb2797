/** What a fault is: a kind with a name, which happens to a site, and is over and healed when it resolves. */
import type { Random } from "../../../src/env/index.js";
import type { Site } from "./site.js";

export const STORES = ["postgres", "redis", "etcd", "zookeeper", "http"] as const;
export type StoreName = (typeof STORES)[number];

/** One lane of faults each: those of different lanes overlap, and those of `holder` and `clock` share two. */
export type Area = "holder" | "clock" | "network" | "engine";

export interface Kind {
  readonly name: string;
  readonly area: Area;
  /** Whether holders stand for longer than their ttl. */
  readonly pauses?: boolean;
  /** Why it cannot happen on this machine. */
  readonly missing?: string | null;
  /** Resolves to false if there was nobody to hit. Rejects if something is wrong. */
  happen(site: Site, random: Random): Promise<boolean>;
}

export function pick<T>(random: Random, from: readonly T[]): T {
  return from[Math.floor(random.float() * from.length)]!;
}

export function between(random: Random, least: number, most: number): number {
  return least + (most - least) * random.float();
}

/** In an order of its own. */
export function shuffled<T>(random: Random, from: readonly T[]): T[] {
  const left = [...from];
  return from.map(() => left.splice(Math.floor(random.float() * left.length), 1)[0]!);
}

/** Each kind once, in an order drawn anew each time that all have been had. */
export class Bag {
  #left: Kind[] = [];

  constructor(
    readonly kinds: readonly Kind[],
    readonly random: Random,
  ) {}

  next(): Kind | undefined {
    if (this.#left.length === 0) this.#left = shuffled(this.random, this.kinds);
    return this.#left.pop();
  }
}

/** On the machine's monotonic clock, which all processes share, in milliseconds. */
export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
