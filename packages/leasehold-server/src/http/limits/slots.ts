/**
 * What one tenant may have under way at once of something that the requests of other tenants wait for: pages and their
 * texts, scans, claims, and leases in the lanes of the store (tenants.ts says how many of each).
 *
 *   wanted ─▶ free, and none waits? ─▶ under way ─▶ ended ─▶ rest ─▶ free
 *               └── no ─▶ waits, first in, first out ─▶ its time is over, or too many wait: 429
 *
 * A slot is held until what it is for has ended, also if its caller has given up: the store works on it all the same. Then
 * it may rest, so that other tenants are served in between, however fast the store is.
 */
import type { Clock } from "leasehold";
import { nextTurn } from "leasehold/internal";
import { ProblemError, tooMany } from "../problems.js";

interface SlotsOptions {
  readonly slots: number;
  /** What takes the slots, for refusals: such as "claims of a tenant". */
  readonly what: string;
  /** What a caller that is refused should do. Default: retry. */
  readonly remedy?: string;
  /** More are refused at once. Default: any number may wait. */
  readonly mostWaiting?: number;
  /**
   * Until the next turn of the event loop; for as long as the slot was taken, 1 s at most, and until the next turn at
   * least; or not at all. Default: a turn.
   */
  readonly rest?: "turn" | "asLong" | "none";
}

interface Wanted {
  /** Default 1. A call that needs more than there are is alone. */
  readonly slots?: number;
  /** Default: the wait has no end. */
  readonly timeoutMs?: number;
  /** Ends the wait, with its reason. */
  readonly signal?: AbortSignal | undefined;
}

/** A call that is under way. In an object, because promises of promises become one. */
export interface Begun<T> {
  readonly answer: Promise<T>;
}

interface Waiting {
  readonly slots: number;
  /** @param why the wait ends without slots */
  readonly end: (why?: { readonly reason: unknown }) => void;
}

const LONGEST_REST_MS = 1_000;
const RETRY_MS = 1_000;

export class Slots {
  readonly #clock: Clock;
  readonly #options: SlotsOptions;
  /** In the order of arrival. */
  readonly #waiting = new Set<Waiting>();
  #free: number;

  constructor(clock: Clock, options: SlotsOptions) {
    this.#clock = clock;
    this.#options = options;
    this.#free = options.slots;
  }

  /** The share of the slots that is taken. */
  get used(): number {
    const { slots } = this.#options;
    return Number.isFinite(slots) ? 1 - this.#free / slots : 0;
  }

  /**
   * Calls when there are slots for it.
   * @throws TOO_MANY_REQUESTS if there are none in time, or too many wait; CLOSING; the signal's reason
   */
  async run<T>(call: () => Promise<T>, wanted: Wanted = {}): Promise<T> {
    const slots = this.#needed(wanted);
    if (!this.#takes(slots)) await this.#wait(slots, wanted);
    return this.#call(slots, call);
  }

  /** As `run`, and resolves when the call is under way. */
  async begin<T>(call: () => Promise<T>, wanted: Wanted = {}): Promise<Begun<T>> {
    const slots = this.#needed(wanted);
    if (!this.#takes(slots)) await this.#wait(slots, wanted);
    const answer = this.#call(slots, call);
    // Its caller may have given up.
    answer.catch(() => {});
    return { answer };
  }

  /** Refuses what waits. */
  close(): void {
    const reason = new ProblemError("CLOSING", "this instance is closing; retry on another one");
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const { end } of waiting) end({ reason });
  }

  #needed({ slots = 1 }: Wanted): number {
    return Math.min(slots, this.#options.slots);
  }

  #takes(slots: number): boolean {
    if (this.#waiting.size > 0 || this.#free < slots) return false;
    this.#free -= slots;
    return true;
  }

  async #call<T>(slots: number, call: () => Promise<T>): Promise<T> {
    // A store in this process may do all of it within the call.
    const sinceMs = this.#options.rest === "asLong" ? this.#clock.monotonic() : 0;
    try {
      return await call();
    } finally {
      this.#rest(slots, sinceMs);
    }
  }

  /** Resolves when it has the slots. */
  #wait(slots: number, { timeoutMs = Infinity, signal }: Wanted): Promise<void> {
    const { mostWaiting = Infinity } = this.#options;
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      if (this.#waiting.size >= mostWaiting)
        throw this.#refusal(`${mostWaiting} others wait already`);
      const leave = () => waiting.end({ reason: signal?.reason });
      const late = () =>
        waiting.end({
          reason: this.#refusal(`this one did not begin within ${Math.round(timeoutMs)} ms`),
        });
      const timer = Number.isFinite(timeoutMs)
        ? this.#clock.timer(timeoutMs, late, { background: true })
        : undefined;
      const waiting: Waiting = {
        slots,
        end: (why) => {
          this.#waiting.delete(waiting);
          timer?.cancel();
          signal?.removeEventListener("abort", leave);
          if (!why) return resolve();
          reject(why.reason);
          // It may have been the one that the others wait for.
          this.#serve();
        },
      };
      signal?.addEventListener("abort", leave);
      this.#waiting.add(waiting);
    });
  }

  /** @param sinceMs when the call began, where it rests for as long */
  #rest(slots: number, sinceMs: number): void {
    const { rest = "turn" } = this.#options;
    const end = () => {
      this.#free += slots;
      this.#serve();
    };
    if (rest === "none") return end();
    const takenMs = rest === "turn" ? 0 : this.#clock.monotonic() - sinceMs;
    if (takenMs === 0) void nextTurn().then(end);
    else this.#clock.timer(Math.min(takenMs, LONGEST_REST_MS), end, { background: true });
  }

  #serve(): void {
    for (const { slots, end } of this.#waiting) {
      if (slots > this.#free) return;
      this.#free -= slots;
      end();
    }
  }

  #refusal(why: string): ProblemError {
    const { what, remedy = "retry in 1 s" } = this.#options;
    const detail = `${what} take turns at each instance, and ${why}: ${remedy}`;
    return tooMany("slots", detail, RETRY_MS);
  }
}
