/**
 * Wraps a listener of the user's code. An error that it throws is rethrown in a microtask of its own, so
 * that the call that notified it still succeeds.
 */
export function isolated<Args extends unknown[]>(
  listener: (...args: Args) => void,
): (...args: Args) => void {
  return (...args) => {
    try {
      listener(...args);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  };
}
