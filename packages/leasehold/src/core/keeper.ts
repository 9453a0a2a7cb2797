/**
 * One timer for everything that a client holds. Each lease says when it next wants to be woken (to
 * renew, or because its trust ends); the keeper sleeps until the earliest and wakes all that are
 * due, so that their renewals leave in one batch.
 */
import TinyQueue from "tinyqueue";
import type { Clock, Timer } from "../env/index.js";

/** Something with a next moment. */
export interface Kept {
  /**
   * Called once at the moment it was scheduled for, or earlier when the machine has been suspended;
   * schedules itself anew if it wants more.
   * @internal
   */
  wake(): void;
}

interface Entry {
  readonly atMs: number;
  /** Undefined: stale. What is kept no more need not stay in memory until then. */
  kept: Kept | undefined;
}

/**
 * Rescheduling leaves a stale entry in the heap instead of searching for it. When most entries are
 * stale the heap is rebuilt, so memory stays in proportion to what is kept.
 */
const REBUILD_ABOVE = 1_024;
/**
 * A suspend stops the monotonic clock, and timers with it, but not the wall clock. While anything is
 * kept the two are compared this often; if the wall clock has gained more than SUSPENDED_MS, all are
 * woken, so that what was lost in the sleep is told at once.
 */
const LOOK_EVERY_MS = 1_000;
/**
 * Whoever is due so soon is woken with those who are due now: of many leases whole batches are then
 * renewed together, instead of a few in each millisecond.
 */
export const TOGETHER_MS = 50;
const SUSPENDED_MS = 10;

export class Keeper {
  readonly #clock: Clock;
  readonly #current = new Map<Kept, Entry>();
  #heap = new TinyQueue<Entry>([], byTime);
  #timer: Timer | undefined;
  #timerAtMs = Number.POSITIVE_INFINITY;
  /** What the wall clock was ahead of the monotonic one at the last look. */
  #aheadMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#aheadMs = clock.wall() - clock.monotonic();
  }

  /**
   * Wakes `kept` at this monotonic time instead of any earlier wish, or up to TOGETHER_MS before. Never
   * for Infinity.
   */
  schedule(kept: Kept, atMs: number): void {
    if (atMs === Number.POSITIVE_INFINITY) return this.remove(kept);
    const entry: Entry = { atMs, kept };
    this.#forget(kept);
    this.#current.set(kept, entry);
    if (this.#heap.length > REBUILD_ABOVE && this.#heap.length > 4 * this.#current.size) {
      this.#heap = new TinyQueue([...this.#current.values()], byTime);
    } else {
      this.#heap.push(entry);
    }
    if (!this.#timer || atMs < this.#timerAtMs) this.#arm();
  }

  remove(kept: Kept): void {
    this.#forget(kept);
    // A timer that is too early looks, and sets the next one.
    if (!this.#current.delete(kept) || this.#current.size > 0) return;
    this.#heap = new TinyQueue([], byTime);
    this.#arm();
  }

  #forget(kept: Kept): void {
    const entry = this.#current.get(kept);
    if (entry) entry.kept = undefined;
  }

  /** Sets the timer for the earliest entry; none when nothing is kept, so the process may end. */
  #arm(): void {
    let next = this.#heap.peek();
    while (next && !next.kept) {
      this.#heap.pop();
      next = this.#heap.peek();
    }
    const nowMs = this.#clock.monotonic();
    const atMs = next ? Math.min(next.atMs, nowMs + LOOK_EVERY_MS) : Number.POSITIVE_INFINITY;
    // An earlier timer stays: it looks, and sets the next one.
    if (this.#timer && this.#timerAtMs <= atMs && next) return;
    this.#timer?.cancel();
    this.#timerAtMs = atMs;
    this.#timer = next ? this.#clock.timer(atMs - nowMs, () => this.#fire()) : undefined;
  }

  #fire(): void {
    this.#timer = undefined;
    try {
      for (const kept of this.#suspended() ? [...this.#current.keys()] : this.#due()) kept.wake();
    } finally {
      this.#arm();
    }
  }

  #suspended(): boolean {
    const aheadMs = this.#clock.wall() - this.#clock.monotonic();
    const gainedMs = aheadMs - this.#aheadMs;
    this.#aheadMs = aheadMs;
    return gainedMs > SUSPENDED_MS;
  }

  #due(): Kept[] {
    const nowMs = this.#clock.monotonic();
    const due: Kept[] = [];
    let next = this.#heap.peek();
    const untilMs = next && next.atMs <= nowMs ? nowMs + TOGETHER_MS : nowMs;
    for (; next && next.atMs <= untilMs; next = this.#heap.peek()) {
      this.#heap.pop();
      if (!next.kept) continue;
      this.#current.delete(next.kept);
      due.push(next.kept);
    }
    return due;
  }
}

function byTime(a: Entry, b: Entry): number {
  return a.atMs - b.atMs;
}
