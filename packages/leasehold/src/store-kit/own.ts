/**
 * Tracks the grants and waiters of one session of an engine. The session keeps them all alive, so this
 * class ends each at its own expiry. It also tracks requests without a response: they may have taken
 * effect.
 */
import type { Clock, SerialExecutor, Timer } from "../env/index.js";

/** Delay before a failed end is retried, unless a connection opens earlier. */
const RETRY_MS = 1_000;

export class Own<T extends { readonly id: string; untilMs: number }> {
  readonly #all = new Map<string, T>();
  readonly #timers = new Map<string, Timer>();
  #closed = false;

  /**
   * @param turns runs the operations on one lease id one after the other: its end must not overlap its
   *   renewal
   * @param end called when an entry expires (`untilMs`), until it is forgotten
   */
  constructor(
    readonly clock: Clock,
    readonly turns: SerialExecutor,
    readonly end: (one: T) => Promise<unknown>,
  ) {}

  get size(): number {
    return this.#all.size;
  }

  get(id: string): T | undefined {
    return this.#all.get(id);
  }

  put(one: T): void {
    if (this.#closed) return;
    this.#all.set(one.id, one);
    this.#arm(one, one.untilMs - this.clock.monotonic());
  }

  forget(id: string): void {
    this.#all.delete(id);
    this.#timers.get(id)?.cancel();
    this.#timers.delete(id);
  }

  /**
   * Runs `work` on an entry while nothing else is under way with it.
   * @returns null, without running it, if other work is under way until `deadlineMs`
   */
  inTurn<Result>(
    id: string,
    deadlineMs: number,
    work: () => Promise<Result>,
  ): Promise<Result | null> {
    return new Promise((resolve, reject) => {
      let isLate = false;
      const timer = this.clock.timer(deadlineMs - this.clock.monotonic(), () => {
        isLate = true;
        resolve(null);
      });
      void this.turns.run(id, async () => {
        timer.cancel();
        if (!isLate) await work().then(resolve, reject);
      });
    });
  }

  /** Called when a connection opens. */
  hurry(): void {
    const nowMs = this.clock.monotonic();
    for (const one of this.#all.values()) if (one.untilMs <= nowMs) this.#arm(one, 0);
  }

  close(): void {
    this.#closed = true;
    for (const id of Array.from(this.#all.keys())) this.forget(id);
  }

  #arm(one: T, delayMs: number): void {
    this.#timers.get(one.id)?.cancel();
    const timer = this.clock.timer(delayMs, () => void this.#due(one.id), { background: true });
    this.#timers.set(one.id, timer);
  }

  async #due(id: string): Promise<void> {
    let tried = false;
    await this.turns.run(id, async () => {
      const one = this.#all.get(id);
      if (!one || one.untilMs > this.clock.monotonic()) return;
      tried = true;
      await this.end(one).catch(() => {});
    });
    const one = this.#all.get(id);
    if (!one) return;
    const leftMs = one.untilMs - this.clock.monotonic();
    this.#arm(one, Math.max(leftMs, tried ? RETRY_MS : 0));
  }
}
