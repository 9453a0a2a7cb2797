/**
 * Who is served first when there is more to do than can be done: those who keep what they hold.
 *
 *   keeps    renew, release, heartbeat, complete, fail, return, /healthz, /metrics,
 *            revoke, force-unlock, /v1/pauses: what ends an overload                 always
 *   waits    /api/tasks/next, /v1/events                        as many as one tenant may have
 *   demands  all else: acquire, enqueue, lists                  while few are under way and the event
 *                                                               loop comes round in time, else 429
 *
 * A flood of demands would otherwise fill the queue before each store and the event loop itself, and
 * renewals would arrive after their leases' time. A demand that is refused costs next to nothing: it is
 * answered before its body is read.
 */
import type { Clock, Timer } from "../env/index.js";
import type { ServerLimits } from "./limits.js";

export type Urgency = "keeps" | "waits" | "demands";

/** By the last parts of the path: the same words in all dialects. */
const KEEPING =
  /\/(renew|release|heartbeat|complete|fail|return|revoke|force-unlock|pauses|healthz|metrics)$/;
/** `DELETE /v1/locks/{leaseId}` and `DELETE /api/leases/{id}` release. */
const RELEASING = /\/(v1\/locks|api\/leases)(\/[^/]+)?$/;
const WAITING = /\/(api\/tasks\/next|v1\/events)$/;

export function urgencyOf(method: string, path: string): Urgency {
  if (KEEPING.test(path) || (method === "DELETE" && RELEASING.test(path))) return "keeps";
  return WAITING.test(path) ? "waits" : "demands";
}

/** The event loop is looked at this often while demands are under way. */
const LOOK_MS = 50;
/** How much of the lateness seen before counts beside the latest: one long pause is no overload. */
const SMOOTHING = 0.8;

export class Admission {
  readonly #clock: Clock;
  readonly #most: number;
  readonly #latestMs: number;
  #inFlight = 0;
  #look: Timer | undefined;
  #lateMs = 0;

  constructor(clock: Clock, { inFlight, lateMs }: Pick<ServerLimits, "inFlight" | "lateMs">) {
    this.#clock = clock;
    this.#most = inFlight;
    this.#latestMs = lateMs ?? Infinity;
  }

  /** @returns what to call when the demand is answered; null: not now */
  enter(): (() => void) | null {
    if (this.#inFlight >= this.#most || this.#lateMs > this.#latestMs) return null;
    this.#inFlight += 1;
    this.#lookOn();
    return () => {
      this.#inFlight -= 1;
    };
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
