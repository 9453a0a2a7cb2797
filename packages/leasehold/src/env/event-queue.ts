/** The events of one watch, on their way from a callback to the one loop that reads them. */

/** The reader may have missed events, and has to read the state anew. */
export interface Resync {
  readonly type: "resync";
}
const RESYNC: Resync = { type: "resync" };

/** This many unread events say no more than "read everything again". */
const LONGEST_BACKLOG = 1_000;

export class EventQueue<Event> {
  #unread: (Event | Resync)[] = [];
  #ended = false;
  #error: Error | undefined;
  #wake = () => {};

  push(event: Event): void {
    if (this.#unread.length >= LONGEST_BACKLOG) return this.resync();
    this.#unread.push(event);
    this.#wake();
  }

  /** Takes the place of everything unread. */
  resync(): void {
    this.#unread = [RESYNC];
    this.#wake();
  }

  /**
   * Ends the reader's loop and drops what is unread.
   * @param error what the loop throws at its end
   */
  end(error?: Error): void {
    this.#ended = true;
    this.#error = error;
    this.#wake();
  }

  /** For one reader. */
  async *read(): AsyncGenerator<Event | Resync, void, void> {
    while (!this.#ended) {
      const event = this.#unread.shift();
      if (event !== undefined) yield event;
      else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
    if (this.#error) throw this.#error;
  }
}

/**
 * The events of a subscription, until one of the signals aborts, the queue is ended, or the reader
 * leaves its loop. AbortSignal.any is no help here: a signal that lives as long as the store would
 * keep what is left of each watch.
 * @param subscribe connects the queue to its source; returns what disconnects it
 */
export async function* eventsUntil<Event>(
  signals: readonly AbortSignal[],
  subscribe: (queue: EventQueue<Event>) => () => void,
): AsyncGenerator<Event | Resync, void, void> {
  if (signals.some(({ aborted }) => aborted)) return;
  const queue = new EventQueue<Event>();
  const end = () => queue.end();
  const unsubscribe = subscribe(queue);
  for (const signal of signals) signal.addEventListener("abort", end, { once: true });
  try {
    yield* queue.read();
  } finally {
    for (const signal of signals) signal.removeEventListener("abort", end);
    unsubscribe();
  }
}
