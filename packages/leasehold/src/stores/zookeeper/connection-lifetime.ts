/**
 * How long the session surely lasts, as answered requests prove it. The leader counts the timeout from
 * the last *touch* that it knows of. A follower collects the touches of its clients and sends them when
 * the leader pings it (every half tick); no client learns when:
 *
 *   client   ──a──────────────────w────▶ answered
 *   server     touched(a) ─┐      │ write, through the leader and a quorum
 *   leader   ──────────────┴ping──┴──▶   the session lasts from a on at least, not from w
 *
 * So a write that is answered proves that the session lives, and that the leader knows of everything that
 * was answered a while before it: server and leader talk over one connection, in order. That while is a
 * sixth of the session, more than half a tick from 3 ticks on. Connecting touches at once.
 */

/** The part of a session within which a touch reaches the leader, if the leader lives. */
const TOLD_RATIO = 1 / 6;
const MOST_TOUCHES = 50;

interface Touch {
  readonly sentMs: number;
  readonly answeredMs: number;
}

export class Lifetime {
  readonly #touches: Touch[];

  constructor(
    readonly sessionTimeoutMs: number,
    openedMs: number,
  ) {
    // The leader learns of a connection before it stands.
    this.#touches = [{ sentMs: openedMs, answeredMs: Number.NEGATIVE_INFINITY }];
  }

  /** The session lasts until then at least, if a write that was sent at `sentMs` is answered. */
  lastsUntilMs(sentMs: number): number {
    const toldMs = sentMs - this.sessionTimeoutMs * TOLD_RATIO;
    const told = this.#touches.findLast(({ answeredMs }) => answeredMs <= toldMs);
    return (told?.sentMs ?? Number.NEGATIVE_INFINITY) + this.sessionTimeoutMs;
  }

  /** Notes an answered request. */
  touched(touch: Touch): void {
    const lastMs = this.#touches.at(-1)?.sentMs ?? Number.NEGATIVE_INFINITY;
    // A few per beat are as good as all, and the latest half of a session as good as its whole.
    if (touch.sentMs < lastMs + this.sessionTimeoutMs / 100) return;
    this.#touches.push(touch);
    if (this.#touches.length > MOST_TOUCHES) this.#touches.shift();
  }
}
