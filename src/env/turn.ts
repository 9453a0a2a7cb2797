/**
 * Resolves in a later turn of the event loop, when every promise reaction that was ready, and all
 * that followed from those, have run. Faster than a timer of 0 ms, which waits at least 1 ms.
 */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (typeof setImmediate === "function") {
      setImmediate(resolve);
      return;
    }
    // Browsers have no setImmediate.
    const { port1, port2 } = new MessageChannel();
    port1.addEventListener("message", () => {
      port1.close();
      resolve();
    });
    port1.start();
    port2.postMessage(null);
  });
}
