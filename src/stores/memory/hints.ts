/** The events of one watcher, from whoever pushes them to the one loop that reads them. */

/** A reader this far behind is told to read everything again. */
const LONGEST_BACKLOG = 1_000;

export class HintQueue<Event extends { readonly type: string }> {
  #events: (Event | { readonly type: "resync" })[] = [{ type: "resync" }];
  #wake: (() => void) | null = null;
  #ended = false;

  push(event: Event): void {
    if (this.#events.length < LONGEST_BACKLOG) this.#events.push(event);
    else this.#events = [{ type: "resync" }];
    this.#wake?.();
  }

  /** The reader's loop ends; events that it has not read are dropped. */
  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  /** Begins with a `resync`. For one reader. */
  async *read(): AsyncGenerator<Event | { readonly type: "resync" }, void, void> {
    while (!this.#ended) {
      const event = this.#events.shift();
      if (event) yield event;
      else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }
}
