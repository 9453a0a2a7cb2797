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

/** The hints of a watch that stands in these sets, from now until the signal aborts or they are ended. */
export async function* follow<Event extends { readonly type: string }>(
  signal: AbortSignal,
  sets: readonly Set<HintQueue<Event>>[],
): AsyncGenerator<Event | { readonly type: "resync" }, void, void> {
  if (signal.aborted) return;
  const hints = new HintQueue<Event>();
  const end = () => hints.end();
  signal.addEventListener("abort", end, { once: true });
  for (const set of sets) set.add(hints);
  try {
    yield* hints.read();
  } finally {
    signal.removeEventListener("abort", end);
    for (const set of sets) set.delete(hints);
  }
}
