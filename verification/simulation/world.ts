/**
 * The simulated world: one queue of events in true time, which the simulated code cannot read. One event
 * runs, every promise that it set off settles, then the next one runs; so a run follows from its
 * seed alone.
 *
 *   event queue ──▶ event (a timer fires, a message arrives, a fault begins)
 *        ▲             │ real code runs: scheduler, client, worker, server
 *        └─────────────┘ and asks for timers and sends messages
 */

import type { Random, Timer } from "leasehold";
import { nextTurn } from "leasehold/internal";
import { seededRandom } from "leasehold/testing";
import TinyQueue from "tinyqueue";
import { Trace } from "./trace.js";

interface Event {
  readonly atMs: number;
  readonly order: number;
  run: (() => void) | null;
}

/** A property that does not hold. */
export interface Violation {
  readonly property: string;
  readonly what: string;
  readonly atMs: number;
}

export class World {
  readonly random: Random;
  readonly trace: Trace;
  /** What happened at least once, by name: rare branches and faults. */
  readonly covered = new Map<string, number>();
  /** The first one; the world stops at it. */
  violation: Violation | undefined;
  #nowMs = 0;
  #order = 0;
  #events = 0;
  readonly #settled: () => Promise<void>;
  readonly #queue = new TinyQueue<Event>([], (a, b) => a.atMs - b.atMs || a.order - b.order);

  /**
   * @param keepStory keeps the lines of the trace, for a person to read; else only their hash
   * @param settled resolves when an event has settled. Default: after a turn of the event loop, which is
   *   enough for code that waits for no turn itself.
   */
  constructor(seed: number, { keepStory = false, settled = nextTurn } = {}) {
    this.random = seededRandom(seed);
    this.trace = new Trace(keepStory);
    this.#settled = settled;
  }

  /** True time in milliseconds from the beginning. */
  get nowMs(): number {
    return this.#nowMs;
  }

  /** How many events have run. */
  get events(): number {
    return this.#events;
  }

  /** Runs `run` `delayMs` from now in true time. */
  after(delayMs: number, run: () => void): Timer {
    const event: Event = { atMs: this.#nowMs + Math.max(0, delayMs), order: this.#order++, run };
    this.#queue.push(event);
    return {
      cancel: () => {
        event.run = null;
      },
    };
  }

  /**
   * Runs what is due until then.
   * @returns whether that time was reached: not at a violation
   */
  async runUntil(untilMs: number): Promise<boolean> {
    // Worlds that settle by ticks would otherwise leave no time to the rest of this process.
    await nextTurn();
    await this.#settled();
    for (
      let event = this.#queue.peek();
      event && event.atMs <= untilMs;
      event = this.#queue.peek()
    ) {
      this.#queue.pop();
      if (!event.run) continue;
      if (this.violation) return false;
      this.#events += 1;
      this.#nowMs = event.atMs;
      event.run();
      await this.#settled();
    }
    if (this.violation) return false;
    this.#nowMs = Math.max(this.#nowMs, untilMs);
    return true;
  }

  /** A line of the story; part of the hash by which two runs are compared. */
  tell(who: string, what: string): void {
    this.trace.add(this.#nowMs, who, what);
  }

  violate(property: string, what: string): void {
    this.tell("CHECK", `${property}: ${what}`);
    this.violation ??= { property, what, atMs: this.#nowMs };
  }

  cover(what: string): void {
    this.covered.set(what, (this.covered.get(what) ?? 0) + 1);
  }

  /** True with this probability. */
  chance(probability: number): boolean {
    return this.random.float() < probability;
  }

  /** Uniform in [from, to). */
  between(from: number, to: number): number {
    return from + (to - from) * this.random.float();
  }

  pick<T>(choices: readonly [T, ...T[]]): T {
    return choices[Math.floor(this.random.float() * choices.length)] ?? choices[0];
  }
}
