/** Tasks under limits: never more live leases than may be, nor more starts in a window. Times are the store's. */
import type { World } from "../world.js";

/** As `Rate` of the library. */
interface Rate {
  readonly limit: number;
  readonly perMs: number;
}

/** The store counts from the epoch: what is the same instant there may differ here in the last digits. */
const ROUNDING_MS = 0.001;

/** Starts in windows of which each begins with the first start after the one before has ended. */
class Starts {
  #window = { endMs: Number.NEGATIVE_INFINITY, used: 0 };

  /** Counts one more. @returns how many have started in its window */
  count({ perMs }: Rate, nowMs: number): number {
    if (nowMs >= this.#window.endMs - ROUNDING_MS) this.#window = { endMs: nowMs + perMs, used: 0 };
    this.#window.used += 1;
    return this.#window.used;
  }
}

export interface Limits {
  /** Of the kind. */
  readonly running: number;
  readonly rate: Rate;
  /** Of each concurrency key. */
  readonly keyRate: Rate;
}

export class LimitChecker {
  readonly #world: World;
  readonly #limits: Limits;
  readonly #grants = new Map<string, { readonly token: number; untilMs: number }>();
  readonly #keys = new Map<string, string>();
  readonly #starts = new Starts();
  readonly #startsOfKeys = new Map<string, Starts>();

  constructor(world: World, limits: Limits) {
    [this.#world, this.#limits] = [world, limits];
  }

  added(id: string, key: string): void {
    this.#keys.set(id, key);
    if (!this.#startsOfKeys.has(key)) this.#startsOfKeys.set(key, new Starts());
  }

  claimed(id: string, token: number, untilMs: number, nowMs: number): void {
    if (this.#grants.get(id)?.token === token) {
      return this.#world.cover("repeated claim under a limit answered");
    }
    this.#grants.set(id, { token, untilMs });
    const { running, rate, keyRate } = this.#limits;
    const live = [...this.#grants.values()].filter(
      (grant) => nowMs < grant.untilMs - ROUNDING_MS,
    ).length;
    if (live > running) {
      this.#world.violate("live leases of a kind stay within its limit", `${live} of ${running}`);
    }
    if (live === running) this.#world.cover("as many tasks of a kind run as may");
    const started = this.#starts.count(rate, nowMs);
    if (started > rate.limit) {
      this.#world.violate("starts of a window stay within the rate", `${started} of ${rate.limit}`);
    }
    const key = this.#keys.get(id) ?? "";
    const ofKey = this.#startsOfKeys.get(key)?.count(keyRate, nowMs) ?? 0;
    if (ofKey > keyRate.limit) {
      const what = `${ofKey} of ${keyRate.limit}, of ${key}`;
      this.#world.violate("starts of a window stay within the rate of a key", what);
    }
  }

  renewed(id: string, token: number, untilMs: number): void {
    const grant = this.#grants.get(id);
    if (grant?.token === token) grant.untilMs = Math.max(grant.untilMs, untilMs);
  }

  /** Its grant has ended. */
  ended(id: string): void {
    const grant = this.#grants.get(id);
    if (grant) grant.untilMs = Number.NEGATIVE_INFINITY;
  }
}
