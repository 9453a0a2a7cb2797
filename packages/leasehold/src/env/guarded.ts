/** Calls code of the program: listeners, handlers, loggers, telemetry. Its errors must not fail or stop what calls it. */

/**
 * Calls it now.
 * @param onError receives what it throws, or what its promise rejects with: nothing awaits the promise of an async listener, so that
 *   a rejection would end the process
 */
export function guarded(call: () => unknown, onError: (error: unknown) => void): void {
  try {
    const result = call() as PromiseLike<unknown> | undefined;
    if (typeof result?.then === "function") Promise.resolve(result).catch(onError);
  } catch (error) {
    onError(error);
  }
}
