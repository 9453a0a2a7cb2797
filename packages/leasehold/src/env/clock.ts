/**
 * Time as a value: production passes {@link systemClock}, tests and the simulation pass their own.
 *
 * Two readings, because they fail differently: the wall clock jumps (NTP, operators), the
 * monotonic clock never does but stops while a machine is suspended.
 */
export interface Clock {
  /** Milliseconds since the Unix epoch. May jump either way. */
  wall(): number;
  /** Milliseconds since an arbitrary origin. Never goes back; stops during a suspend. */
  monotonic(): number;
  /**
   * Calls `callback` once, `delayMs` from now: at once for zero or less, never for Infinity.
   * A timer holds the process open unless `background` is set.
   */
  timer(delayMs: number, callback: () => void, options?: { background?: boolean }): Timer;
}

/** A pending timer; cancelling one that has fired is a no-op. */
export interface Timer {
  cancel(): void;
}

/** Node and browsers clamp longer delays to 1 ms, which would fire at once. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;

/** The clocks of this machine. */
export const systemClock: Clock = {
  wall: () => Date.now(),
  monotonic: () => performance.now(),
  timer(delayMs, callback, options) {
    let handle: ReturnType<typeof setTimeout>;
    const start = (leftMs: number) => {
      const restMs = leftMs - LONGEST_DELAY_MS;
      handle =
        restMs > 0
          ? setTimeout(start, LONGEST_DELAY_MS, restMs)
          : setTimeout(callback, Math.max(0, leftMs));
      // Browsers return a number: there a timer holds nothing open.
      if (options?.background && typeof handle === "object") handle.unref();
    };
    start(delayMs);
    return { cancel: () => clearTimeout(handle) };
  },
};

/**
 * Resolves after `delayMs`; rejects with the signal's reason when it aborts first.
 * @param options.background does not hold the process open
 */
export function sleep(
  clock: Clock,
  delayMs: number,
  options: { signal?: AbortSignal | undefined; background?: boolean } = {},
): Promise<void> {
  const { signal } = options;
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      timer.cancel();
      reject(signal?.reason);
    };
    const timer = clock.timer(
      delayMs,
      () => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      },
      { background: options.background ?? false },
    );
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}
