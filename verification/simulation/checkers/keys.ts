/** Tasks with a concurrency key: never more live leases of a key than its limit, and begun in order. Times are the store's. */
import type { World } from "../world.js";

interface Kept {
  readonly key: string;
  /** Of the last grant; null: none is live, whatever the time. */
  grant: { readonly token: number; untilMs: number } | null;
  finished: boolean;
}

export class KeyChecker {
  readonly #world: World;
  readonly #perKey: number;
  /** In the order in which the store numbered them. */
  readonly #kept = new Map<string, Kept>();

  constructor(world: World, perKey: number) {
    this.#world = world;
    this.#perKey = perKey;
  }

  /** The store has it, for the first time or again. */
  added(id: string, key: string): void {
    if (!this.#kept.has(id)) this.#kept.set(id, { key, grant: null, finished: false });
  }

  /** A claim was answered with it, for the first time or again. */
  claimed(id: string, token: number, untilMs: number, nowMs: number): void {
    const own = this.#kept.get(id);
    if (!own) return;
    if (own.grant?.token === token) return this.#world.cover("repeated claim of a key answered");
    own.grant = { token, untilMs };
    let live = 0;
    let isAhead = true;
    for (const [other, { key, grant, finished }] of this.#kept) {
      const isLive = grant !== null && nowMs < grant.untilMs;
      if (other === id) isAhead = false;
      if (key !== own.key) continue;
      if (isLive) live += 1;
      if (!isAhead || isLive || finished) continue;
      this.#world.violate("tasks of a key begin in order", `${id} of ${key} before ${other}`);
    }
    if (live > this.#perKey) {
      const what = `${live} of ${own.key}, by token ${token}`;
      this.#world.violate("live leases of a key stay within its limit", what);
    }
    if (live > 1) this.#world.cover("tasks of a key run side by side");
  }

  renewed(id: string, token: number, untilMs: number): void {
    const grant = this.#kept.get(id)?.grant;
    if (grant?.token === token) grant.untilMs = Math.max(grant.untilMs, untilMs);
  }

  /** It has failed, or was requeued: it is pending again. */
  returned(id: string): void {
    const kept = this.#kept.get(id);
    if (kept) kept.grant = null;
  }

  finished(id: string): void {
    const kept = this.#kept.get(id);
    if (!kept) return;
    kept.grant = null;
    kept.finished = true;
  }
}
