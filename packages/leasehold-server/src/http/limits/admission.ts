/**
 * Who is served first when there is more to do than can be done: those who keep what they hold.
 *
 *   keeps    renew, release, heartbeat, complete, fail, return, /healthz, /metrics,
 *            revoke, force-unlock, /v1/pauses: what ends an overload                 always
 *   waits    /api/tasks/next, /v1/events, /v1/activity          as many as one tenant may have
 *   demands  all else: acquire, enqueue, lists                  while few are under way and the event
 *                                                               loop comes round in time, else 429
 *
 * How few is learnt: as many as the store serves without keeping them waiting, so that a renewal that
 * comes behind them does not wait either. A store that is far away or slow is none that has a queue:
 * what counts is how much longer than the fastest the others take.
 *
 * A flood of demands would otherwise fill the queue before each store and the event loop itself, and
 * renewals would arrive after their leases' time. A demand that is refused costs next to nothing: it is
 * answered before its body is read.
 */
import type { Clock, Env, Logger, Timer } from "leasehold";
import type { ServerLimits } from "./limits.js";

export type Urgency = "keeps" | "waits" | "demands";

/** By the last parts of the path: the same words in all dialects. */
const KEEPING =
  /\/(renew|release|heartbeat|complete|fail|return|revoke|force-unlock|pauses|healthz|metrics)$/;
/** `DELETE /v1/locks/{leaseId}` and `DELETE /api/leases/{id}` release. */
const RELEASING = /\/(v1\/locks|api\/leases)(\/[^/]+)?$/;
const WAITING = /\/(api\/tasks\/next|v1\/(events|activity))$/;

/** @param url whole, or from the path on */
export function urgencyOf(method: string, url: string): Urgency {
  const query = url.indexOf("?");
  const path = query < 0 ? url : url.slice(0, query);
  if (KEEPING.test(path) || (method === "DELETE" && RELEASING.test(path))) return "keeps";
  return WAITING.test(path) ? "waits" : "demands";
}

/** The event loop is looked at this often while demands are under way. */
const LOOK_MS = 50;
/** For so many at once there is room at first, and always. */
const [FIRST_ROOM, LEAST_ROOM] = [256, 32];
/** At least this share of the room is left when those in it have waited for too long. */
const LARGEST_STEP = 0.25;
/** The fastest that any counts as: of 0 there is no share by which it could grow. */
const LEAST_MS = 1;
/** A store that has become slower is known as such after some thousand demands. */
const LEAST_GROWS = 1.001;
/** How often it is said that demands are refused. */
const SAY_MS = 10_000;
/** How much of the lateness seen before counts beside the latest: one long pause is no overload. */
const SMOOTHING = 0.8;

export class Admission {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #most: number;
  readonly #latestMs: number;
  #room: number;
  /** The shortest that a demand has taken of late: what the store needs when nothing waits. */
  #leastMs = Infinity;
  /** When the room was made smaller. */
  #shrunkMs = -Infinity;
  #inFlight = 0;
  #look: Timer | undefined;
  #lateMs = 0;
  /** Since it was last said. */
  #refused = 0;
  #requestedMs = -Infinity;

  constructor(
    { clock, logger }: Pick<Env, "clock" | "logger">,
    { inFlight, lateMs }: Pick<ServerLimits, "inFlight" | "lateMs">,
  ) {
    this.#clock = clock;
    this.#logger = logger;
    this.#most = inFlight;
    this.#latestMs = lateMs ?? Infinity;
    this.#room = lateMs === null ? inFlight : Math.min(inFlight, FIRST_ROOM);
  }

  get isFull(): boolean {
    return this.#inFlight >= this.#room || this.#lateMs > this.#latestMs;
  }

  /** @returns what to call when the demand is answered; null: not now */
  enter(): (() => void) | null {
    if (this.isFull) return null;
    const wasFull = this.#inFlight + 1 >= this.#room;
    this.#inFlight += 1;
    this.#lookOn();
    const beginMs = this.#clock.monotonic();
    return () => {
      this.#inFlight -= 1;
      this.#learn(this.#clock.monotonic() - beginMs, beginMs, wasFull);
    };
  }

  /** One more after the other while none waits for too long; else as many as would not have waited. */
  #learn(tookMs: number, beginMs: number, wasFull: boolean): void {
    this.#leastMs = Math.max(LEAST_MS, Math.min(this.#leastMs * LEAST_GROWS, tookMs));
    if (tookMs - this.#leastMs <= this.#latestMs) {
      if (wasFull) this.#room = Math.min(this.#most, this.#room + 1);
      return;
    }
    // Once for all that were under way at the time.
    if (beginMs < this.#shrunkMs) return;
    this.#shrunkMs = this.#clock.monotonic();
    const share = Math.max(LARGEST_STEP, this.#latestMs / (tookMs - this.#leastMs));
    this.#room = Math.min(this.#most, Math.max(LEAST_ROOM, Math.floor(this.#room * share)));
  }

  /** Says so, one line for many: to write one for each would be more to do. */
  refuse(): void {
    this.#refused += 1;
    const nowMs = this.#clock.monotonic();
    if (nowMs - this.#requestedMs < SAY_MS) return;
    this.#requestedMs = nowMs;
    const counts = { refused: this.#refused, inFlight: this.#inFlight };
    const fields = { event: "overloaded", ...counts, lateMs: Math.round(this.#lateMs) };
    this.#logger.warn(fields, "more requests than this instance can do: the first are refused");
    this.#refused = 0;
  }

  close(): void {
    this.#look?.cancel();
  }

  /** Looks on until the loop is in time and nothing is under way. */
  #lookOn(): void {
    if (this.#look) return;
    const dueMs = this.#clock.monotonic() + LOOK_MS;
    const look = () => {
      this.#look = undefined;
      const lateMs = this.#clock.monotonic() - dueMs;
      this.#lateMs = SMOOTHING * this.#lateMs + (1 - SMOOTHING) * lateMs;
      if (this.#inFlight > 0 || this.#lateMs > this.#latestMs) this.#lookOn();
    };
    this.#look = this.#clock.timer(LOOK_MS, look, { background: true });
  }
}
