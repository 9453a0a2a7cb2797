/**
 * Computes how long the session certainly lasts, from the requests that got a response. The leader
 * counts the timeout from the last *touch* that it knows of. A follower collects the touches of its
 * clients and sends them when the leader pings it (every half tick). Clients do not see when:
 *
 *   client   ──a──────────────────w────▶ answered
 *   server     touched(a) ─┐      │ write, through the leader and a quorum
 *   leader   ──────────────┴ping──┴──▶   the session lasts at least from a, not from w
 *
 * So a confirmed write proves that the session lives. It also proves that the leader knows of every
 * request answered some time earlier, because server and leader use one ordered connection. That time
 * is a sixth of the session, which exceeds half a tick for sessions of 3 ticks or more. Opening a
 * connection touches the session at once.
 */

/** The fraction of a session within which a touch reaches the leader, if the leader lives. */
const REPORT_RATIO = 1 / 6;
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
    // The leader knows of a connection before it is established.
    this.#touches = [{ sentMs: openedMs, answeredMs: Number.NEGATIVE_INFINITY }];
  }

  /** Returns until when the session certainly lasts, if a write sent at `sentMs` gets a response. */
  lastsUntilMs(sentMs: number): number {
    const reportedMs = sentMs - this.sessionTimeoutMs * REPORT_RATIO;
    const reported = this.#touches.findLast(({ answeredMs }) => answeredMs <= reportedMs);
    return (reported?.sentMs ?? Number.NEGATIVE_INFINITY) + this.sessionTimeoutMs;
  }

  /** Records a request that got a response. */
  touched(touch: Touch): void {
    const lastMs = this.#touches.at(-1)?.sentMs ?? Number.NEGATIVE_INFINITY;
    // A few samples per heartbeat suffice, and so does the latest half of a session.
    if (touch.sentMs < lastMs + this.sessionTimeoutMs / 100) return;
    this.#touches.push(touch);
    if (this.#touches.length > MOST_TOUCHES) this.#touches.shift();
  }
}
