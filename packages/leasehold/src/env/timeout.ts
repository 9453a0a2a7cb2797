import type { Clock } from "./clock.js";

/**
 * The promise's outcome, or that of `onTimeout` when the promise takes longer than `timeoutMs`. The
 * work behind the promise goes on; its late outcome is ignored.
 * @param onTimeout returns or throws what counts instead
 * @param options.background the timer does not hold the process open
 */
export function withTimeout<T, Late = never>(
  clock: Clock,
  timeoutMs: number,
  promise: Promise<T>,
  onTimeout: () => Late | PromiseLike<Late>,
  options?: { readonly background?: boolean },
): Promise<T | Late> {
  return new Promise((resolve, reject) => {
    const onTimer = () => {
      try {
        resolve(onTimeout());
      } catch (error) {
        reject(error);
      }
    };
    const timer = clock.timer(timeoutMs, onTimer, options);
    promise.then(
      (value) => {
        timer.cancel();
        resolve(value);
      },
      (error: unknown) => {
        timer.cancel();
        reject(error);
      },
    );
  });
}

/**
 * The promise's outcome, or a rejection as soon as the signal aborts. The work behind the promise goes on, as that of a body
 * whose connection has died.
 * @param reasonOf what it rejects with; default: the signal's reason
 */
export function untilAborted<T>(
  signal: AbortSignal,
  promise: Promise<T>,
  reasonOf: () => unknown = () => signal.reason,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(reasonOf());
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
