/**
 * Sessions of a server that has become read-only, such as a demoted primary that keeps its connections. One refused
 * statement holds for all of them: the idle ones of the pools are destroyed instead of used, and the session of the
 * notifications ends. New connections may lead to the new primary.
 */
import type { PgPool, PgPoolClient } from "./connection-drivers.js";

export class Demotions {
  /** How many there had been when the client was opened, or lent by the pool of a user for the first time. */
  readonly #seenAt = new WeakMap<object, number>();
  readonly #listeners = new Set<() => void>();
  #count = 0;

  /** To be called with each new client of a pool of the store's own. */
  opened(client: object): void {
    this.#seenAt.set(client, this.#count);
  }

  /** A client of the pool, opened since the last demotion as far as this store knows. */
  async take(pool: PgPool): Promise<PgPoolClient> {
    for (;;) {
      const client = await pool.connect();
      if (!this.#seenAt.has(client)) this.opened(client);
      if (this.#seenAt.get(client) === this.#count) return client;
      client.release(true);
    }
  }

  /** A session refused to write. One of an earlier server tells nothing new. */
  refused(client: object): void {
    if (this.#seenAt.get(client) !== this.#count) return;
    this.#count += 1;
    for (const listener of this.#listeners) listener();
  }

  /** Calls the listener at each demotion. @returns the end of that */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}
