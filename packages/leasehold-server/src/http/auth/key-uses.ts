/** Which keys are in use, for people who look for keys that are not. Requests only add to a set, which is written in the background. */
import type { Env } from "leasehold";
import { type ApiKeyStore, NOTE_USED_EVERY_MS, type Repeating, repeat } from "leasehold/internal";

/** The use of further keys is noted later. */
const MOST_KEYS = 10_000;

export class KeyUses implements Repeating {
  readonly #keys: Pick<ApiKeyStore, "noteUsed">;
  readonly #writing: Repeating;
  #used = new Set<string>();

  constructor(keys: Pick<ApiKeyStore, "noteUsed">, env: Env) {
    this.#keys = keys;
    this.#writing = repeat(env, "note the use of keys", NOTE_USED_EVERY_MS, () => this.#write());
  }

  readonly note = (keyId: string): void => {
    if (this.#used.size < MOST_KEYS) this.#used.add(keyId);
  };

  async stop(): Promise<void> {
    await this.#writing.stop();
    // Without it, a server that is restarted every minute would note nothing.
    await this.#write().catch(() => {});
  }

  async #write(): Promise<void> {
    if (this.#used.size === 0) return;
    const ids = [...this.#used];
    this.#used = new Set();
    await this.#keys.noteUsed(ids);
  }
}
