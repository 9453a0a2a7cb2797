/**
 * Hints for those who wait: a watch on the contenders of each lock that somebody of this client was
 * refused. It fires once, when a contender has come or gone, by whatever kind of client.
 */
import type { Key, WatchEvent } from "../../lease/index.js";
import type { Talk } from "./locks.js";
import { inOrder } from "./paths.js";

/** A reader this far behind is told to read everything again. */
const LONGEST_BACKLOG = 1_000;

export class Watches {
  readonly #readers = new Map<string, Set<Reader>>();
  /** Locks that have a watch which has not fired. */
  #watched = new Set<string>();

  /**
   * From now on somebody waits for this lock, which `first` has.
   * @returns whether that is still so
   */
  async watch(talk: Talk, { namespace, resource }: Key, first: string): Promise<boolean> {
    const path = talk.paths.lock({ namespace, resource });
    const watched = this.#watched;
    if (watched.has(path)) return true;
    watched.add(path);
    try {
      const { children } = await talk.link.getChildren(path, talk.deadlineMs, () => {
        watched.delete(path);
        this.#tell(namespace, { type: "changed", namespace, resource });
      });
      return inOrder(children)[0] === first;
    } catch (error) {
      watched.delete(path);
      throw error;
    }
  }

  /** The connection is another one: what happened meanwhile is for each to find out. */
  renewed(): void {
    this.#watched = new Set();
    for (const namespace of this.#readers.keys()) this.#tell(namespace, { type: "resync" });
  }

  async *follow(namespace: string, signal: AbortSignal): AsyncGenerator<WatchEvent, void, void> {
    if (signal.aborted) return;
    const reader = new Reader();
    const readers = this.#readers.get(namespace) ?? new Set();
    this.#readers.set(namespace, readers.add(reader));
    const end = () => reader.end();
    signal.addEventListener("abort", end, { once: true });
    try {
      yield* reader.read();
    } finally {
      signal.removeEventListener("abort", end);
      readers.delete(reader);
      if (readers.size === 0 && this.#readers.get(namespace) === readers) {
        this.#readers.delete(namespace);
      }
    }
  }

  end(): void {
    for (const readers of this.#readers.values()) for (const reader of readers) reader.end();
  }

  #tell(namespace: string, event: WatchEvent): void {
    for (const reader of this.#readers.get(namespace) ?? []) reader.push(event);
  }
}

class Reader {
  #events: WatchEvent[] = [{ type: "resync" }];
  #wake = () => {};
  #ended = false;

  push(event: WatchEvent): void {
    if (this.#events.length < LONGEST_BACKLOG) this.#events.push(event);
    else this.#events = [{ type: "resync" }];
    this.#wake();
  }

  end(): void {
    this.#ended = true;
    this.#wake();
  }

  async *read(): AsyncGenerator<WatchEvent, void, void> {
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
