/**
 * Callers of one process queue first in, first out for a resource, and only the head contends with
 * other processes: a hundred waiting callers cost the store what one does.
 */
export class Turns {
  readonly #queues = new Map<string, (() => void)[]>();

  /** Resolves when all who came before have left; rejects with the signal's reason. */
  enter(resource: string, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    const queue = this.#queues.get(resource);
    if (!queue) {
      this.#queues.set(resource, []);
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const onTurn = () => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      };
      const onAbort = () => {
        const index = queue.indexOf(onTurn);
        if (index >= 0) queue.splice(index, 1);
        reject(signal.reason);
      };
      queue.push(onTurn);
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }

  /** The head leaves, with or without the resource; the next one contends. */
  leave(resource: string): void {
    const next = this.#queues.get(resource)?.shift();
    if (next) next();
    else this.#queues.delete(resource);
  }
}
