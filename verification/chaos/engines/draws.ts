/** Draws from a seeded generator. */
import type { Random } from "leasehold";

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
