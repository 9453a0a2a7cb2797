/**
 * Calls a listener of the user's. An error that it throws is thrown on its own, outside of the call
 * that told it: what was done was done.
 */
export function telling<Event>(listener: (event: Event) => void): (event: Event) => void {
  return (event) => {
    try {
      listener(event);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  };
}
