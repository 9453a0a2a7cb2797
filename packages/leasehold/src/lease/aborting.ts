/**
 * Calls that can be ended from outside: by their caller's signal, or by the client's close.
 *
 * Each call gets an abort of its own. One listener per outside signal passes the abort on,
 * however many calls share it: a program's shutdown signal may stand behind thousands of waits, and
 * AbortSignal.any costs more than an acquire does.
 */

/** A call that can be aborted. */
export interface Abortable {
  abort(reason: unknown): void;
}

/** An {@link Abortable} with its neighbours among the calls in flight of a client. */
export interface Call extends Abortable {
  before?: Call | undefined;
  after?: Call | undefined;
}

/** An AbortController whose signal is created on first use: most calls end without one. */
export class Abort implements Call {
  before: Call | undefined;
  after: Call | undefined;
  #aborted = false;
  #reason: unknown;
  /** The first listener, and further ones: most calls have one at a time. */
  #listener: (() => void) | undefined;
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
    this.#listener?.();
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
      this.#listen(onAbort);
      promise.then(
        (value) => {
          this.#unlisten(onAbort);
          resolve(value);
        },
        (error: unknown) => {
          this.#unlisten(onAbort);
          reject(error);
        },
      );
    });
  }

  #listen(listener: () => void): void {
    if (!this.#listener) {
      this.#listener = listener;
      return;
    }
    this.#listeners ??= new Set();
    this.#listeners.add(listener);
  }

  #unlisten(listener: () => void): void {
    if (this.#listener === listener) this.#listener = undefined;
    else this.#listeners?.delete(listener);
  }
}

export class Aborting {
  readonly #followers = new Map<AbortSignal, { calls: Set<Abortable>; pass: () => void }>();

  /** Runs the call with an abort that follows the first of the signals. */
  async run<T>(
    signals: readonly (AbortSignal | undefined)[],
    call: (abort: Abort) => Promise<T>,
  ): Promise<T> {
    const abort = new Abort();
    const followed = signals.filter((signal) => signal !== undefined);
    for (const signal of followed) signal.throwIfAborted();
    for (const signal of followed) this.follow(signal, abort);
    try {
      return await call(abort);
    } finally {
      for (const signal of followed) this.unfollow(signal, abort);
    }
  }

  /** Aborts it when the signal does, until `unfollow`. */
  follow(signal: AbortSignal, abort: Abortable): void {
    let follower = this.#followers.get(signal);
    if (!follower) {
      const calls = new Set<Abortable>();
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

  unfollow(signal: AbortSignal, abort: Abortable): void {
    const follower = this.#followers.get(signal);
    if (!follower?.calls.delete(abort) || follower.calls.size > 0) return;
    this.#followers.delete(signal);
    signal.removeEventListener("abort", follower.pass);
  }
}

/**
 * The calls of a client in flight: its end aborts them, and waits for theirs. They are a linked list, because a set that
 * each acquire enters and leaves costs more than the acquire.
 */
export class Calls {
  #last: Call | undefined;
  readonly #aborting = new Aborting();
  readonly #waiting = new Set<() => void>();

  /** Adds a call; it is aborted with the signal as well, if there is one. */
  begin(call: Call, signal: AbortSignal | undefined): void {
    call.before = this.#last;
    if (this.#last) this.#last.after = call;
    this.#last = call;
    if (signal) this.#aborting.follow(signal, call);
  }

  end(call: Call, signal: AbortSignal | undefined): void {
    if (signal) this.#aborting.unfollow(signal, call);
    const { before, after } = call;
    if (before) before.after = after;
    if (after) after.before = before;
    else this.#last = before;
    call.before = undefined;
    call.after = undefined;
    if (!this.#last) for (const resolve of this.#waiting) resolve();
  }

  /** Runs the call, always, with an abort that follows the signal, if there is one. */
  async run<T>(signal: AbortSignal | undefined, call: (abort: Abort) => Promise<T>): Promise<T> {
    const abort = new Abort();
    if (signal?.aborted) abort.abort(signal.reason);
    this.begin(abort, signal);
    try {
      return await call(abort);
    } finally {
      this.end(abort, signal);
    }
  }

  abort(reason: unknown): void {
    for (let call = this.#last; call; ) {
      const { before } = call;
      call.abort(reason);
      call = before;
    }
  }

  /** Resolves when no call is in flight. */
  async ended(): Promise<void> {
    if (this.#last) await new Promise<void>((resolve) => this.#waiting.add(resolve));
  }
}
