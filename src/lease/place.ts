/**
 * A caller that waits: its ticket, how many stand before it as far as it knows, and when to ask again.
 *
 *   asked: held, `ahead` before us ──▶ pause ──▶ ask again: woken, or it may be our turn, or long enough
 *                                        │
 *                                        └─ a hint that wakes another one: one less is ahead; if that one
 *                                           does not answer, ours is the next turn, or the one after
 *
 * A release wakes the first in line alone. The others hear of it too, and need not ask; but the few
 * behind it do when their turn has come and nothing was heard since: the first may be dead.
 */
import { type Env, grantIdOf, jittered, newLeaseId } from "../env/index.js";
import type { Held, Ticket } from "./acquisition.js";
import { Wakeup } from "./hints.js";
import type { Capabilities } from "./port.js";
import { MOST_AWAITED, reservedForMs } from "./queue.js";

/** A waiter asks again this often even if nothing wakes it. */
const POLL_MS = { push: 2_000, poll: 250 } as const;
/** Whoever is far behind asks less often: this much longer for each who is ahead, up to so long. */
const [POLL_RATIO_PER_AHEAD, LONGEST_POLL_MS] = [0.125, 10_000];
/** A release that the store was just committing told nobody of it: the first looks come soon. */
const FIRST_PAUSE_MS = 25;
/** A place is kept for so many pauses: a slow answer does not lose it, a dead waiter does. */
const KEPT_PAUSES = 2.5;
/** Just after the expiry: so that a rounding of clocks does not cost a second look. */
const AFTER_EXPIRY_MS = 1;

export class Place {
  readonly ticket: Ticket;
  readonly #env: Env;
  readonly #watch: Capabilities["watch"];
  readonly #wakeup = new Wakeup();
  #ahead = 0;
  /** Nothing can be lost before the store was asked for the first time. */
  #keptMs = Infinity;
  #called = false;
  /** By the monotonic clock: when to ask at the latest. */
  #askAtMs = 0;

  constructor(env: Env, watch: Capabilities["watch"]) {
    this.#env = env;
    this.#watch = watch;
    this.ticket = { leaseId: newLeaseId(env.random) };
  }

  /** How long the store is asked to keep it this time, in milliseconds. */
  keep(): number {
    this.#keptMs = KEPT_PAUSES * this.#pollMs();
    return this.#keptMs;
  }

  /** For {@link Hints.listen}. */
  readonly hear = (wakes?: string): void => {
    if (wakes === undefined || wakes === grantIdOf(this.ticket.leaseId)) {
      this.#called = true;
    } else {
      if (this.#ahead === 0) return;
      // Those before us who do not answer are waited for; then it is our turn.
      const turnMs = reservedForMs(this.#ahead) + AFTER_EXPIRY_MS;
      const isNear = this.#ahead <= MOST_AWAITED;
      this.#ahead -= 1;
      if (!isNear) return;
      this.#askAtMs = Math.min(this.#askAtMs, this.#env.clock.monotonic() + turnMs);
    }
    this.#wakeup.set();
  };

  /**
   * Resolves when there is reason to ask again; rejects with the signal's reason.
   * @param last what the store has said; null: nothing
   * @param looks how often it has been asked
   * @param leftMs at most so long
   */
  async pause(
    last: Held | null,
    looks: number,
    leftMs: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { clock, random } = this.#env;
    this.#ahead = last?.ahead ?? 0;
    // Those behind somebody are not woken by a release, so that none can have been missed.
    const soonMs = this.#ahead > 0 ? Infinity : FIRST_PAUSE_MS * 2 ** looks;
    // How far behind it is may be news: the store keeps the place for as long as it was asked to.
    const pollMs = Math.min(this.#pollMs(), soonMs, this.#keptMs / KEPT_PAUSES);
    const pauseMs = jittered(random, pollMs, 0.25);
    const turnMs = (last?.remainingMs ?? Infinity) + AFTER_EXPIRY_MS;
    this.#askAtMs = clock.monotonic() + Math.min(pauseMs, turnMs, leftMs);
    for (;;) {
      const waitMs = this.#askAtMs - clock.monotonic();
      if (this.#called || waitMs <= 0) break;
      await this.#wakeup.wait(this.#env, waitMs, signal);
    }
    this.#called = false;
    signal.throwIfAborted();
  }

  #pollMs(): number {
    const ratio = Math.max(1, this.#ahead * POLL_RATIO_PER_AHEAD);
    return Math.min(POLL_MS[this.#watch] * ratio, LONGEST_POLL_MS);
  }
}
