/**
 * The latest answer to a renewal, in memory that two threads share: one writes, one reads.
 *
 *   Int32    number of answers so far
 *   Float64  answer 0: kind, sent (monotonic, wall), remainingMs, token
 *   Float64  answer 1: the same
 *
 * Answer n is written where n % 2 says, and then counted. The reader repeats if it was overtaken, so neither waits.
 */
import type { Instant, RenewalAnswer } from "../lease/index.js";

export interface SentAnswer {
  readonly sent: Instant;
  readonly answer: RenewalAnswer;
}

type Kind = "renewed" | Extract<RenewalAnswer, { status: "lost" }>["reason"];
const KINDS: readonly Kind[] = ["renewed", "expired", "revoked", "taken", "gone"];
const COUNT_BYTES = 8;
const NUMBERS = 5;

export class Answers {
  readonly #count: Int32Array;
  readonly #numbers: Float64Array;
  #read = 0;

  /** @param memory of another thread; default: new */
  constructor(
    readonly memory = new SharedArrayBuffer(
      COUNT_BYTES + 2 * NUMBERS * Float64Array.BYTES_PER_ELEMENT,
    ),
  ) {
    this.#count = new Int32Array(memory, 0, 1);
    this.#numbers = new Float64Array(memory, COUNT_BYTES);
  }

  write({ sent, answer }: SentAnswer): void {
    const count = (Atomics.load(this.#count, 0) + 1) | 0;
    const isRenewed = answer.status === "renewed";
    const kind = KINDS.indexOf(isRenewed ? "renewed" : answer.reason);
    const rest = isRenewed ? [answer.remainingMs, answer.token] : [0, 0];
    this.#numbers.set([kind, sent.monotonicMs, sent.wallMs, ...rest], start(count));
    Atomics.store(this.#count, 0, count);
  }

  /** The latest, once; undefined if it was read before. */
  read(): SentAnswer | undefined {
    for (;;) {
      const count = Atomics.load(this.#count, 0);
      if (count === this.#read) return undefined;
      const numbers = this.#numbers.slice(start(count), start(count) + NUMBERS);
      if (Atomics.load(this.#count, 0) !== count) continue;
      this.#read = count;
      const [at = 0, monotonicMs = 0, wallMs = 0, remainingMs = 0, token = 0] = numbers;
      const kind = KINDS[at] ?? "gone";
      const sent = { monotonicMs, wallMs };
      if (kind !== "renewed") return { sent, answer: { status: "lost", reason: kind } };
      return { sent, answer: { status: "renewed", remainingMs, token } };
    }
  }
}

function start(count: number): number {
  return (count & 1) * NUMBERS;
}
