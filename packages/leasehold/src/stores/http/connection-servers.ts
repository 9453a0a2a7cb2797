/**
 * The servers of a store, of which one is asked until it fails:
 *
 *   no connection, no answer in time, 5xx ──▶ leave() ──▶ the next one, for all calls and event streams
 *
 * What was not applied goes to the next one at once. What may have been goes there when the caller repeats it.
 */
export class Servers {
  #at = 0;

  /** @param baseUrls at least one, each without a trailing slash */
  constructor(readonly baseUrls: readonly string[]) {}

  get current(): string {
    return this.baseUrls[this.#at] as string;
  }

  /** The next call asks another server, unless one has moved on already. */
  leave(failed: string): void {
    if (failed === this.current) this.#at = (this.#at + 1) % this.baseUrls.length;
  }
}
