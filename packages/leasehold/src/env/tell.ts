/**
 * Calls a listener of the user's. An error that it throws is thrown on its own, outside of the call
 * that told it: what was done was done.
 */
export function telling<Told extends unknown[]>(
  listener: (...told: Told) => void,
): (...told: Told) => void {
  return (...told) => {
    try {
      listener(...told);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  };
}
