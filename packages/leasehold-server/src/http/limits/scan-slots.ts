/**
 * The scans of one tenant that are in the store at once. A scan is a read whose cost grows with what the tenant has
 * stored, not with what it returns: counts, and lists whose filter has no index. Several at once would occupy the
 * processors of the database, or the only thread of a store in this process, while others renew.
 *
 *   scan a ─▶ in the store
 *   scan b ─▶ waits ◀─ scan b of another caller: one read for both
 *   scan c ─▶ waits, first in, first out; the caller leaves after 5 s (429)
 *   ...
 *   one more than wait here at most: 429
 *
 * Callers share only a scan that still waits. It begins after each of them has asked, so each of them sees what it has
 * changed before. A slot is free when its scan has ended in the store, also if its callers have given up, and after as much
 * time again: a store in this process does nothing else during a scan, and other tenants need the time between.
 */
import type { Clock } from "leasehold";
import { nextTurn, withTimeout } from "leasehold/internal";
import { ProblemError, tooMany } from "../problems.js";

const MOST_WAITING = 32;
const LONGEST_WAIT_MS = 5_000;
const LONGEST_REST_MS = 1_000;
const RETRY_MS = 1_000;

/** A scan that is in the store. In an object, because promises of promises become one. */
export interface Scan<T> {
  readonly answer: Promise<T>;
}

interface Waiting {
  readonly begun: Promise<Scan<unknown>>;
  readonly begin: () => void;
  readonly refuse: (error: ProblemError) => void;
  callers: number;
}

export class ScanSlots {
  readonly #clock: Clock;
  /** By what they ask, in the order of arrival. */
  readonly #waiting = new Map<unknown, Waiting>();
  #free: number;

  constructor(clock: Clock, slots: number) {
    this.#clock = clock;
    this.#free = slots;
  }

  /**
   * Begins a scan when there is a slot for it, or joins one that waits and asks the same.
   * @param question what the scan asks; callers do not share one that is a symbol
   * @throws TOO_MANY_REQUESTS if it has not begun in time, or too many wait
   */
  async begin<T>(
    question: string | symbol,
    timeoutMs: number,
    scan: () => Promise<T>,
  ): Promise<Scan<T>> {
    if (this.#free > 0 && this.#waiting.size === 0) return this.#run(scan);
    const known = this.#waiting.get(question);
    if (!known && this.#waiting.size >= MOST_WAITING) {
      throw refusal(`${MOST_WAITING} others wait already`);
    }
    const waiting = known ?? this.#wait(question, scan);
    waiting.callers += 1;
    const waitMs = Math.min(timeoutMs, LONGEST_WAIT_MS);
    const leave = () => {
      waiting.callers -= 1;
      if (waiting.callers === 0) this.#waiting.delete(question);
      throw refusal(`this one did not begin within ${Math.round(waitMs)} ms`);
    };
    const begun = waiting.begun as Promise<Scan<T>>;
    return withTimeout(this.#clock, waitMs, begun, leave, { background: true });
  }

  /** Refuses the scans that wait. */
  close(): void {
    const closing = new ProblemError("CLOSING", "this instance is closing; retry on another one");
    for (const { refuse } of this.#waiting.values()) refuse(closing);
    this.#waiting.clear();
  }

  #wait<T>(question: string | symbol, scan: () => Promise<T>): Waiting {
    let begin = () => {};
    let refuse = (_: ProblemError) => {};
    const begun = new Promise<Scan<unknown>>((resolve, reject) => {
      begin = () => resolve(this.#run(scan));
      refuse = reject;
    });
    const waiting: Waiting = { begun, begin, refuse, callers: 0 };
    this.#waiting.set(question, waiting);
    return waiting;
  }

  #run<T>(scan: () => Promise<T>): Scan<T> {
    this.#free -= 1;
    // A store in this process may do all of it within the call.
    const sinceMs = this.#clock.monotonic();
    // Also a call that throws returns its slot.
    const answer = (async () => scan())();
    const rest = () => {
      const restMs = Math.min(this.#clock.monotonic() - sinceMs, LONGEST_REST_MS);
      if (restMs === 0) void nextTurn().then(() => this.#end());
      else this.#clock.timer(restMs, () => this.#end(), { background: true });
    };
    answer.then(rest, rest);
    return { answer };
  }

  #end(): void {
    this.#free += 1;
    for (const [question, { begin }] of this.#waiting) {
      if (this.#free === 0) return;
      this.#waiting.delete(question);
      begin();
    }
  }
}

function refusal(why: string): ProblemError {
  const what = "reads of a tenant that count or filter take turns at each instance";
  return tooMany("TOO_MANY_REQUESTS", `${what}, and ${why}: retry in 1 s`, RETRY_MS);
}
