/**
 * One timer for all leases of a client. Each lease schedules its next wake-up: for a renewal, or for
 * the end of its trust. The scheduler sleeps until the earliest and wakes all leases that are due, so
 * that their renewals share a batch.
 */
import TinyQueue from "tinyqueue";
import type { Clock, Timer } from "../env/index.js";

/** A lease that the scheduler wakes. */
export interface ScheduledLease {
  /**
   * Called once at the scheduled time, or earlier after a jump of the wall clock. The lease schedules
   * its next wake-up itself.
   * @internal
   */
  wake(): void;
  /**
   * Its next wake-up. Kept here instead of in a map: a map that leases enter and leave all the time costs more than
   * the rest of the scheduler.
   * @internal
   */
  scheduled?: Scheduled | undefined;
}

/** When a lease is woken. */
export interface Scheduled {
  readonly atMs: number;
  /** Undefined if it is stale, so that a removed lease can be garbage-collected. */
  lease: ScheduledLease | undefined;
}

/**
 * Rescheduling leaves a stale entry in the heap instead of searching for it. When most entries are
 * stale the heap is rebuilt, so memory stays in proportion to the scheduled leases.
 */
const REBUILD_ABOVE = 1_024;
/**
 * A suspend stops the monotonic clock and its timers, but not the wall clock. While leases are
 * scheduled, the two clocks are compared this often. If the wall clock has gained more than
 * JUMPED_MS, all leases are woken, so that those lost during the suspend are reported at once. If it
 * was set back, they are woken to read it: trust must notice a suspend that follows.
 */
const COMPARE_CLOCKS_EVERY_MS = 1_000;
/**
 * Leases that are due within this time are woken together with those that are due now. Many leases
 * are then renewed in large batches instead of a few in each millisecond.
 */
export const TOGETHER_MS = 50;
const JUMPED_MS = 10;

export class RenewalScheduler {
  readonly #clock: Clock;
  /** How many leases are scheduled. The other entries of the heap are stale. */
  #count = 0;
  #heap = new TinyQueue<Scheduled>([], byTime);
  #timer: Timer | undefined;
  #timerAtMs = Number.POSITIVE_INFINITY;
  /** How far the wall clock was ahead of the monotonic one at the last comparison. */
  #aheadMs: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#aheadMs = clock.wall() - clock.monotonic();
  }

  /**
   * Wakes `lease` at this monotonic time, or up to TOGETHER_MS before. Replaces its earlier schedule;
   * Infinity removes it.
   */
  schedule(lease: ScheduledLease, atMs: number): void {
    if (atMs === Number.POSITIVE_INFINITY) return this.remove(lease);
    this.#forget(lease);
    const entry: Scheduled = { atMs, lease };
    lease.scheduled = entry;
    this.#count += 1;
    this.#heap.push(entry);
    if (this.#heap.length > REBUILD_ABOVE && this.#heap.length > 4 * this.#count) {
      this.#heap = new TinyQueue(
        this.#heap.data.filter(({ lease }) => lease),
        byTime,
      );
    }
    if (!this.#timer || atMs < this.#timerAtMs) this.#arm();
  }

  remove(lease: ScheduledLease): void {
    // A timer that fires too early only sets the next one.
    if (!this.#forget(lease) || this.#count > 0) return;
    this.#heap = new TinyQueue([], byTime);
    this.#arm();
  }

  /** Whether it was scheduled. */
  #forget(lease: ScheduledLease): boolean {
    const entry = lease.scheduled;
    if (!entry) return false;
    entry.lease = undefined;
    lease.scheduled = undefined;
    this.#count -= 1;
    return true;
  }

  /** Sets the timer for the earliest entry; none without leases, so that the process may end. */
  #arm(): void {
    let next = this.#heap.peek();
    while (next && !next.lease) {
      this.#heap.pop();
      next = this.#heap.peek();
    }
    const nowMs = this.#clock.monotonic();
    const atMs = next
      ? Math.min(next.atMs, nowMs + COMPARE_CLOCKS_EVERY_MS)
      : Number.POSITIVE_INFINITY;
    // An earlier timer stays: when it fires, it sets the next one.
    if (this.#timer && this.#timerAtMs <= atMs && next) return;
    this.#timer?.cancel();
    this.#timerAtMs = atMs;
    this.#timer = next ? this.#clock.timer(atMs - nowMs, () => this.#fire()) : undefined;
  }

  #fire(): void {
    this.#timer = undefined;
    try {
      for (const lease of this.#jumped() ? this.#all() : this.#due()) lease.wake();
    } finally {
      this.#arm();
    }
  }

  /** Whether the machine was suspended or the wall clock was set since the last comparison. */
  #jumped(): boolean {
    const aheadMs = this.#clock.wall() - this.#clock.monotonic();
    const gainedMs = aheadMs - this.#aheadMs;
    this.#aheadMs = aheadMs;
    return Math.abs(gainedMs) > JUMPED_MS;
  }

  /** In the order in which they are due. */
  #all(): ScheduledLease[] {
    return this.#heap.data.toSorted(byTime).flatMap(({ lease }) => lease ?? []);
  }

  #due(): ScheduledLease[] {
    const nowMs = this.#clock.monotonic();
    const due: ScheduledLease[] = [];
    let next = this.#heap.peek();
    const untilMs = next && next.atMs <= nowMs ? nowMs + TOGETHER_MS : nowMs;
    for (; next && next.atMs <= untilMs; next = this.#heap.peek()) {
      this.#heap.pop();
      const { lease } = next;
      if (!lease) continue;
      this.#forget(lease);
      due.push(lease);
    }
    return due;
  }
}

function byTime(a: Scheduled, b: Scheduled): number {
  return a.atMs - b.atMs;
}
