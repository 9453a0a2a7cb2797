/**
 * Notifications for the waiters of this client, and the watches behind them. A znode has one watch,
 * shared by all its waiters, which fires once. A waiter that gives up leaves it for the next one.
 */

import { type EventQueue, eventsUntil } from "../../env/index.js";
import type { WatchEvent } from "../../lease/index.js";

interface ActiveWatch {
  /** The state of the znode when the watch was set. */
  readonly seen: Promise<string | null>;
  /** The callbacks, by waiter id. */
  readonly fired: Map<string, () => void>;
}

export class Watches {
  readonly #readers = new Map<string, Set<EventQueue<WatchEvent>>>();
  /** Keyed by the path of the znode. */
  #active = new Map<string, ActiveWatch>();

  /**
   * Sets a watch on a znode, unless one exists.
   * @param watch.set sets it, and returns what it saw; null if the znode does not exist
   * @param watch.fired called once, unless {@link leave} comes first
   * @returns what was seen, unchanged since
   */
  async set(
    path: string,
    id: string,
    watch: {
      readonly set: (fire: () => void) => Promise<string | null>;
      readonly fired: () => void;
    },
  ): Promise<string | null> {
    const all = this.#active;
    let active = all.get(path);
    if (!active) {
      const fired: ActiveWatch["fired"] = new Map();
      const over = () => {
        if (all.get(path)?.fired === fired) all.delete(path);
      };
      const fire = () => {
        over();
        for (const call of fired.values()) call();
      };
      const seen = watch.set(fire).catch((error: unknown) => {
        over();
        throw error;
      });
      active = { seen, fired };
      all.set(path, active);
    }
    active.fired.set(id, watch.fired);
    const seen = await active.seen;
    if (seen === null && all.get(path) === active) all.delete(path);
    return seen;
  }

  /** Removes a waiter's callback. */
  leave(path: string, id: string): void {
    this.#active.get(path)?.fired.delete(id);
  }

  /** Called on a new connection: each waiter must check what happened meanwhile. */
  renewed(): void {
    this.#active = new Map();
    for (const readers of this.#readers.values()) for (const reader of readers) reader.resync();
  }

  follow(namespace: string, signal: AbortSignal): AsyncGenerator<WatchEvent, void, void> {
    return eventsUntil<WatchEvent>([signal], (reader) => {
      const readers = this.#readers.get(namespace) ?? new Set();
      this.#readers.set(namespace, readers.add(reader));
      reader.resync();
      return () => {
        readers.delete(reader);
        if (readers.size === 0 && this.#readers.get(namespace) === readers) {
          this.#readers.delete(namespace);
        }
      };
    });
  }

  end(): void {
    for (const readers of this.#readers.values()) for (const reader of readers) reader.end();
  }

  notify(namespace: string, event: WatchEvent): void {
    for (const reader of this.#readers.get(namespace) ?? []) reader.push(event);
  }
}
