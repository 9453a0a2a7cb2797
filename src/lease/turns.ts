import type { Abort } from "./aborting.js";

/**
 * Callers of one process queue first in, first out for a resource, and only the head contends with
 * other processes: a hundred waiting callers cost the store what one does.
 */
export class Turns {
  readonly #queues = new Map<string, Waiting[]>();

  /**
   * Resolves when all who came before have left; rejects with the reason when aborted.
   * @param patient whether to stay in line while the head waits for a store that does not answer
   */
  enter(resource: string, abort: Abort, patient: boolean): Promise<void> {
    abort.throwIfAborted();
    const queue = this.#queues.get(resource);
    if (!queue) {
      this.#queues.set(resource, []);
      return Promise.resolve();
    }
    const { signal } = abort;
    return new Promise((resolve, reject) => {
      const leave = (reason: unknown) => {
        signal.removeEventListener("abort", onAbort);
        const index = queue.indexOf(waiting);
        if (index >= 0) queue.splice(index, 1);
        reject(reason);
      };
      const onAbort = () => leave(signal.reason);
      const onTurn = () => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      };
      const waiting = { onTurn, onFailure: patient ? () => {} : leave };
      queue.push(waiting);
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }

  /** The store has failed the head, which goes on; those in line who do not wait for it reject. */
  fail(resource: string, error: unknown): void {
    for (const waiting of [...(this.#queues.get(resource) ?? [])]) waiting.onFailure(error);
  }

  /** The head leaves, with or without the resource; the next one contends. */
  leave(resource: string): void {
    const next = this.#queues.get(resource)?.shift();
    if (next) next.onTurn();
    else this.#queues.delete(resource);
  }
}

interface Waiting {
  onTurn(): void;
  onFailure(error: unknown): void;
}
