/**
 * Runs work one after the other, in the order of the calls, for each key apart. Work begins at once
 * where nothing of its key is under way, and also after work that has failed.
 */
export class SerialExecutor<Key = string> {
  readonly #last = new Map<Key, Promise<unknown>>();

  run<T>(key: Key, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key);
    const running = before ? before.then(work, work) : work();
    this.#last.set(key, running);
    const over = () => {
      if (this.#last.get(key) === running) this.#last.delete(key);
    };
    running.then(over, over);
    return running;
  }
}
