/**
 * Reads of one tenant whose cost grows with what it keeps, not with what they answer: counts, and lists by filter. Where the
 * database runs on the cores of others, a crowd of them would leave none for renewals of other tenants.
 *
 *   read ──▶ the same question waits ──▶ shares its answer
 *     └────▶ a turn is free ──▶ begins at once
 *              └─ none ──▶ waits, first in, first out ──▶ begins, or too late: refused
 *                            └─ too many wait: refused
 *
 * A read that has begun is shared with nobody who asks later: its answer may be older than their question.
 */
import type { Clock } from "leasehold";
import { nextTurn } from "leasehold/internal";
import { tooMany } from "../problems.js";

/** One at work in the database, one on its way. */
const TURNS = 2;
const MOST_WAITING = 100;
const LONGEST_WAIT_MS = 5_000;
const RETRY_MS = 1_000;
const DETAIL =
  "lists and counts of a tenant take turns at each instance, and too many wait: ask less often, or with a narrower filter";

interface Waiting {
  readonly answer: Promise<unknown>;
  readonly begin: () => void;
}

export class ScanTurns {
  readonly #clock: Clock;
  /** By question, in the order of arrival. */
  readonly #waiting = new Map<string, Waiting>();
  #free = TURNS;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * @param question equal for reads with the same answer
   * @throws TOO_MANY_REQUESTS if too many wait, or it does not begin in time
   */
  async run<T>(question: string, read: () => Promise<T>): Promise<T> {
    if (this.#free > 0) {
      this.#free -= 1;
      return this.#read(read);
    }
    const same = this.#waiting.get(question);
    if (same) return same.answer as Promise<T>;
    if (this.#waiting.size >= MOST_WAITING) throw tooMany("TOO_MANY_REQUESTS", DETAIL, RETRY_MS);
    let begin = () => {};
    const answer = new Promise<void>((resolve, reject) => {
      const timer = this.#clock.timer(
        LONGEST_WAIT_MS,
        () => {
          this.#waiting.delete(question);
          reject(tooMany("TOO_MANY_REQUESTS", DETAIL, RETRY_MS));
        },
        { background: true },
      );
      begin = () => {
        this.#waiting.delete(question);
        timer.cancel();
        resolve();
      };
    }).then(() => this.#read(read));
    this.#waiting.set(question, { answer, begin });
    return answer;
  }

  async #read<T>(read: () => Promise<T>): Promise<T> {
    try {
      return await read();
    } finally {
      // So that a store in this process serves first what has arrived meanwhile.
      void nextTurn().then(() => this.#next());
    }
  }

  /** Hands the turn on. */
  #next(): void {
    const [next] = this.#waiting.values();
    if (next) next.begin();
    else this.#free += 1;
  }
}
