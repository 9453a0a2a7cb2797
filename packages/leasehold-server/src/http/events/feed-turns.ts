/**
 * When the streams of one tenant read their events. 2,000 streams that all read at one event would occupy the event
 * loop for so long that other tenants lose leases, so they take turns:
 *
 *   asks ─▶ waiting ─▶ reads: 20 streams and some 64 KB in a turn of the event loop, 4,000 reads in a second
 *              ▲          │
 *              │ news     ▼ nothing to read
 *              └──────── idle
 *
 * Events come from a ring, so a stream that waits holds none: it reads several at once when it is served, or a
 * `resync` if too many have passed.
 */
import type { Clock, Timer } from "leasehold";
import { nextTurn } from "leasehold/internal";

const READS_PER_TURN = 20;
/** The last stream of a turn may exceed this by the piece that it reads. */
const CHARACTERS_PER_TURN = 65_536;
const READS_PER_SECOND = 4_000;
/** A long text costs one more read for each of these. */
const CHARACTERS_PER_READ = 4_096;

/** A stream that reads when it is served. */
export interface Reader {
  /** Called when it may read. */
  readonly grant: () => void;
}

export class FeedTurns {
  readonly #clock: Clock;
  readonly #idle = new Set<Reader>();
  readonly #waiting = new Set<Reader>();
  /** Those that found no room left: they are the first of the next turn. */
  readonly #deferred = new Set<Reader>();
  /** What this turn has granted, and what was read in it. */
  #granted = 0;
  #characters = 0;
  #readsLeft = READS_PER_SECOND;
  #refilledMs: number;
  #scheduled = false;
  #timer: Timer | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#refilledMs = clock.monotonic();
  }

  /** Grants a read at once if there is room, or else in a later turn. */
  ask(reader: Reader): void {
    if (this.#waiting.size + this.#deferred.size === 0 && this.#hasRoom()) this.#grant(reader);
    else if (!this.#deferred.has(reader)) this.#waiting.add(reader);
    this.#schedule();
  }

  /** Asks when there is news. */
  askAtNews(reader: Reader): void {
    this.#idle.add(reader);
  }

  /** The streams without anything to read ask. */
  noteNews(): void {
    if (this.#idle.size === 0) return;
    const readers = [...this.#idle];
    this.#idle.clear();
    for (const reader of readers) this.ask(reader);
  }

  /**
   * Reads for a stream that was granted it.
   * @returns undefined if others have read too much in this turn: a read will be granted again
   */
  read<Result extends { readonly text: string } | null>(
    reader: Reader,
    read: () => Result,
  ): Result | undefined {
    if (this.#characters >= CHARACTERS_PER_TURN) {
      this.#deferred.add(reader);
      this.#schedule();
      return undefined;
    }
    const result = read();
    const { length } = result?.text ?? "";
    this.#characters += length;
    this.#readsLeft -= 1 + length / CHARACTERS_PER_READ;
    return result;
  }

  leave(reader: Reader): void {
    for (const readers of [this.#idle, this.#waiting, this.#deferred]) readers.delete(reader);
    if (!this.#timer || this.#waiting.size + this.#deferred.size > 0) return;
    this.#timer.cancel();
    this.#timer = undefined;
    this.#scheduled = false;
  }

  #grant(reader: Reader): void {
    this.#granted += 1;
    reader.grant();
  }

  #hasRoom(): boolean {
    return (
      this.#granted < READS_PER_TURN &&
      this.#characters < CHARACTERS_PER_TURN &&
      this.#refilled() > 0
    );
  }

  #refilled(): number {
    const nowMs = this.#clock.monotonic();
    const gained = ((nowMs - this.#refilledMs) / 1_000) * READS_PER_SECOND;
    this.#readsLeft = Math.min(READS_PER_SECOND, this.#readsLeft + gained);
    this.#refilledMs = nowMs;
    return this.#readsLeft;
  }

  /** Begins a turn soon: in the next one of the event loop, or when as many reads are left as a turn has. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    const left = this.#refilled();
    if (left > 0) {
      void nextTurn().then(() => this.#serve());
      return;
    }
    const waitMs = Math.ceil(((READS_PER_TURN - left) / READS_PER_SECOND) * 1_000);
    this.#timer = this.#clock.timer(waitMs, () => this.#serve(), { background: true });
  }

  #serve(): void {
    this.#scheduled = false;
    this.#timer = undefined;
    this.#granted = 0;
    this.#characters = 0;
    for (const readers of [this.#deferred, this.#waiting]) {
      for (const reader of readers) {
        if (!this.#hasRoom()) break;
        readers.delete(reader);
        this.#grant(reader);
      }
    }
    if (this.#granted > 0 || this.#waiting.size + this.#deferred.size > 0) this.#schedule();
  }
}
