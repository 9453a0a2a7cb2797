/**
 * Calls that can be ended from outside: by their caller's signal, or by the client's close.
 *
 * Each call gets a controller of its own. One listener per outside signal passes the abort on,
 * however many calls share it: a program's shutdown signal may stand behind thousands of waits, and
 * AbortSignal.any costs more than an acquire does.
 */
export class Aborting {
  readonly #followers = new Map<AbortSignal, { calls: Set<AbortController>; pass: () => void }>();

  /** Runs the call with a controller that aborts with the first of the signals. */
  async run<T>(
    signals: readonly (AbortSignal | undefined)[],
    call: (controller: AbortController) => Promise<T>,
  ): Promise<T> {
    const controller = new AbortController();
    const followed = signals.filter((signal) => signal !== undefined);
    for (const signal of followed) signal.throwIfAborted();
    for (const signal of followed) this.#follow(signal, controller);
    try {
      return await call(controller);
    } finally {
      for (const signal of followed) this.#unfollow(signal, controller);
    }
  }

  #follow(signal: AbortSignal, controller: AbortController): void {
    let follower = this.#followers.get(signal);
    if (!follower) {
      const calls = new Set<AbortController>();
      const pass = () => {
        this.#followers.delete(signal);
        for (const follower of calls) follower.abort(signal.reason);
      };
      follower = { calls, pass };
      this.#followers.set(signal, follower);
      signal.addEventListener("abort", pass, { once: true });
    }
    follower.calls.add(controller);
  }

  #unfollow(signal: AbortSignal, controller: AbortController): void {
    const follower = this.#followers.get(signal);
    if (!follower?.calls.delete(controller) || follower.calls.size > 0) return;
    this.#followers.delete(signal);
    signal.removeEventListener("abort", follower.pass);
  }
}
