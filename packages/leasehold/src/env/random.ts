/** Randomness as a value, so that a simulated run can be replayed from its seed. */
export interface Random {
  /** `count` uniformly random bytes, unguessable in production: lease ids are made of them. */
  bytes(count: number): Uint8Array;
  /** A uniform number in [0, 1), for jitter. */
  float(): number;
}

/** Asked for by the bufferful: each call of the generator costs more than what it yields. */
const BUFFERED = 4_096;
let buffer = new Uint8Array(0);
let used = 0;

/** The machine's generators. */
export const systemRandom: Random = {
  bytes(count) {
    if (count > BUFFERED) return crypto.getRandomValues(new Uint8Array(count));
    if (used + count > buffer.length) {
      buffer = crypto.getRandomValues(new Uint8Array(BUFFERED));
      used = 0;
    }
    used += count;
    // Not a copy, which costs three times as much: no byte is given out twice.
    return buffer.subarray(used - count, used);
  },
  float: () => Math.random(),
};

/** `value` spread evenly over +-`ratio` of itself, so that a fleet does not act in step. */
export function jittered(random: Random, value: number, ratio: number): number {
  return value * (1 + ratio * (2 * random.float() - 1));
}
