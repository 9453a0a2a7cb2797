/**
 * Calls that can be ended from outside: by their caller's signal, or by the client's close.
 *
 * Each call gets an abort of its own. One listener per outside signal passes the abort on,
 * however many calls share it: a program's shutdown signal may stand behind thousands of waits, and
 * AbortSignal.any costs more than an acquire does.
 */

/** An AbortController whose signal is created on first use: most calls end without one. */
export class Abort {
  #aborted = false;
  #reason: unknown;
  #listeners: Set<() => void> | undefined;
  #controller: AbortController | undefined;

  get aborted(): boolean {
    return this.#aborted;
  }

  get reason(): unknown {
    return this.#reason;
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.#aborted) this.#controller.abort(this.#reason);
    }
    return this.#controller.signal;
  }

  abort(reason: unknown): void {
    if (this.#aborted) return;
    this.#aborted = true;
    this.#reason = reason;
    this.#controller?.abort(reason);
    for (const listener of this.#listeners ?? []) listener();
  }

  throwIfAborted(): void {
    if (this.#aborted) throw this.#reason;
  }

  /** The promise's value, or a rejection with the reason the moment it aborts. */
  race<T>(promise: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const onAbort = () => reject(this.#reason);
      if (this.#aborted) return onAbort();
      this.#listeners ??= new Set();
      this.#listeners.add(onAbort);
      const unlisten = () => this.#listeners?.delete(onAbort);
      promise.then(
        (value) => {
          unlisten();
          resolve(value);
        },
        (error: unknown) => {
          unlisten();
          reject(error);
        },
      );
    });
  }
}

export class Aborting {
  readonly #followers = new Map<AbortSignal, { calls: Set<Abort>; pass: () => void }>();

  /** Runs the call with an abort that follows the first of the signals. */
  async run<T>(
    signals: readonly (AbortSignal | undefined)[],
    call: (abort: Abort) => Promise<T>,
  ): Promise<T> {
    const abort = new Abort();
    const followed = signals.filter((signal) => signal !== undefined);
    for (const signal of followed) signal.throwIfAborted();
    for (const signal of followed) this.#follow(signal, abort);
    try {
      return await call(abort);
    } finally {
      for (const signal of followed) this.#unfollow(signal, abort);
    }
  }

  #follow(signal: AbortSignal, abort: Abort): void {
    let follower = this.#followers.get(signal);
    if (!follower) {
      const calls = new Set<Abort>();
      const pass = () => {
        this.#followers.delete(signal);
        for (const call of calls) call.abort(signal.reason);
      };
      follower = { calls, pass };
      this.#followers.set(signal, follower);
      signal.addEventListener("abort", pass, { once: true });
    }
    follower.calls.add(abort);
  }

  #unfollow(signal: AbortSignal, abort: Abort): void {
    const follower = this.#followers.get(signal);
    if (!follower?.calls.delete(abort) || follower.calls.size > 0) return;
    this.#followers.delete(signal);
    signal.removeEventListener("abort", follower.pass);
  }
}
