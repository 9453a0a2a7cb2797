/**
 * One timer for everything that a client holds. Each lease says when it next wants to be woken (to
 * renew, or because its trust ends); the keeper sleeps until the earliest and wakes all that are
 * due, so that their renewals leave in one batch.
 */
import TinyQueue from "tinyqueue";
import type { Clock, Timer } from "../env/index.js";

/** Something with a next moment. */
export interface Kept {
  /** Called once at the moment it was scheduled for; schedules itself anew if it wants more. @internal */
  wake(): void;
}

interface Entry {
  readonly atMs: number;
  readonly kept: Kept;
}

/**
 * Rescheduling leaves a stale entry in the heap instead of searching for it. When most entries are
 * stale the heap is rebuilt, so memory stays in proportion to what is kept.
 */
const REBUILD_ABOVE = 1_024;

export class Keeper {
  readonly #clock: Clock;
  readonly #current = new Map<Kept, Entry>();
  #heap = new TinyQueue<Entry>([], byTime);
  #timer: Timer | undefined;
  #timerAtMs = Number.POSITIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Wakes `kept` at this monotonic time instead of any earlier wish. Never for Infinity. */
  schedule(kept: Kept, atMs: number): void {
    if (atMs === Number.POSITIVE_INFINITY) return this.remove(kept);
    const entry = { atMs, kept };
    this.#current.set(kept, entry);
    if (this.#heap.length > REBUILD_ABOVE && this.#heap.length > 4 * this.#current.size) {
      this.#heap = new TinyQueue([...this.#current.values()], byTime);
    } else {
      this.#heap.push(entry);
    }
    this.#arm();
  }

  remove(kept: Kept): void {
    if (this.#current.delete(kept)) this.#arm();
  }

  /** Sets the timer for the earliest entry; none when nothing is kept, so the process may end. */
  #arm(): void {
    let next = this.#heap.peek();
    while (next && this.#current.get(next.kept) !== next) {
      this.#heap.pop();
      next = this.#heap.peek();
    }
    const atMs = next?.atMs ?? Number.POSITIVE_INFINITY;
    if (atMs === this.#timerAtMs) return;
    this.#timer?.cancel();
    this.#timerAtMs = atMs;
    this.#timer = next
      ? this.#clock.timer(atMs - this.#clock.monotonic(), () => this.#fire())
      : undefined;
  }

  #fire(): void {
    this.#timerAtMs = Number.POSITIVE_INFINITY;
    const nowMs = this.#clock.monotonic();
    const due: Kept[] = [];
    for (let next = this.#heap.peek(); next && next.atMs <= nowMs; next = this.#heap.peek()) {
      this.#heap.pop();
      if (this.#current.get(next.kept) !== next) continue;
      this.#current.delete(next.kept);
      due.push(next.kept);
    }
    for (const kept of due) kept.wake();
    this.#arm();
  }
}

function byTime(a: Entry, b: Entry): number {
  return a.atMs - b.atMs;
}
