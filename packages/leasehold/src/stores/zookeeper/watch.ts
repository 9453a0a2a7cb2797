/**
 * Hints for those of this client who wait, and the watches that they come from: one on a znode, however
 * many are concerned, which fires once. Whoever gives up leaves it standing for the next one.
 */

import type { WatchEvent } from "../../core/index.js";
import { type EventQueue, eventsUntil } from "../../env/index.js";

interface Standing {
  /** What the znode was like when it was set. */
  readonly seen: Promise<string | null>;
  /** Called when it fires, by the id of who is concerned. */
  readonly fired: Map<string, () => void>;
}

export class Watches {
  readonly #readers = new Map<string, Set<EventQueue<WatchEvent>>>();
  /** By the path of the znode. */
  #standing = new Map<string, Standing>();

  /**
   * Has a watch on a znode stand, unless one does.
   * @param watch.set sets it, and says what it has seen; null where there was no such znode
   * @param watch.fired called once, unless {@link leave} is before
   * @returns what was seen, and has not changed since
   */
  async stand(
    path: string,
    id: string,
    watch: {
      readonly set: (fire: () => void) => Promise<string | null>;
      readonly fired: () => void;
    },
  ): Promise<string | null> {
    const all = this.#standing;
    let standing = all.get(path);
    if (!standing) {
      const fired: Standing["fired"] = new Map();
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
      standing = { seen, fired };
      all.set(path, standing);
    }
    standing.fired.set(id, watch.fired);
    const seen = await standing.seen;
    if (seen === null && all.get(path) === standing) all.delete(path);
    return seen;
  }

  /** This one is not concerned any more. */
  leave(path: string, id: string): void {
    this.#standing.get(path)?.fired.delete(id);
  }

  /** The connection is another one: what happened meanwhile is for each to find out. */
  renewed(): void {
    this.#standing = new Map();
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

  tell(namespace: string, event: WatchEvent): void {
    for (const reader of this.#readers.get(namespace) ?? []) reader.push(event);
  }
}
