/**
 * The servers of a store, of which one is asked until it fails:
 *
 *   no connection, no answer in time, 5xx ──▶ leave() ──▶ the next one, for all calls and event streams
 *
 * What was not applied goes to the next one at once. What may have been goes there when the caller repeats it.
 *
 * An address may lead to another server by now, but fetch keeps its connections, and a server that refuses everything need not
 * end them. So from a failure until a good answer, each request ends the connection that it used.
 */
export class Servers {
  #at = 0;
  #isDoubted = false;

  /** @param baseUrls at least one, each without a trailing slash */
  constructor(readonly baseUrls: readonly string[]) {}

  get current(): string {
    return this.baseUrls[this.#at] as string;
  }

  /** The headers that the next request must have. */
  get headers(): Readonly<Record<string, string>> {
    return this.#isDoubted ? { connection: "close" } : {};
  }

  answered(): void {
    this.#isDoubted = false;
  }

  /** The next call asks another server, unless one has moved on already. */
  leave(failed: string): void {
    this.#isDoubted = true;
    if (failed === this.current) this.#at = (this.#at + 1) % this.baseUrls.length;
  }
}
