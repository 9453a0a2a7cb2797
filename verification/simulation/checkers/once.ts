/** Keys of `once`: each is recorded once, or once per keepMs, and every caller is answered with a record that exists. */
import type { OnceResult } from "leasehold";
import type { OnceView } from "leasehold/internal";
import type { Unsettled } from "../simulation.js";
import type { World } from "../world.js";

/** A success, as the store has recorded it. */
interface Kept {
  readonly value: string;
  readonly by: string;
  readonly token: number;
  /** By the store's clock. */
  readonly untilMs: number;
  /** Whether its caller was answered that it ran. */
  answered: boolean;
}

export class OnceChecker {
  readonly #world: World;
  readonly #kept = new Map<string, Kept[]>();
  /** Keys that have failed too often, and that no operator has retried since. */
  readonly #failed = new Set<string>();

  constructor(world: World) {
    this.#world = world;
  }

  /** The work of a caller begins, under this token. */
  begins(key: string, token: number, storeMs: number): void {
    const last = this.#kept.get(key)?.at(-1);
    // A lease from before the record may be found out late.
    if (!last || token < last.token || storeMs >= last.untilMs) return;
    this.#world.violate("no work after the success", `${key}: token ${token} after ${last.token}`);
  }

  /**
   * The store has recorded a success, or repeated its answer. Times are the store's.
   * @param isHeld whether the lease of this token was live then
   */
  recorded(key: string, success: Omit<Kept, "answered">, storeMs: number, isHeld: boolean): void {
    const all = this.#kept.get(key) ?? [];
    this.#kept.set(key, all);
    const last = all.at(-1);
    const { token } = success;
    if (last?.token === token) return this.#world.cover("repeated record answered");
    if (last && storeMs < last.untilMs) {
      this.#world.violate("a key succeeds once", `${key}: by token ${token} after ${last.token}`);
    }
    if (!isHeld) {
      this.#world.violate("a record is made under a live lease", `${key}: by token ${token}`);
    }
    if (this.#failed.has(key)) {
      this.#world.violate("a failed key is not worked on", `${key}: by token ${token}`);
    }
    all.push({ ...success, answered: false });
  }

  failed(key: string): void {
    this.#failed.add(key);
  }

  retried(key: string): void {
    this.#failed.delete(key);
  }

  /** What a caller was answered. */
  answered(key: string, result: OnceResult<string>): void {
    const kept = this.#kept.get(key)?.find(({ value }) => value === result.value);
    const said = JSON.stringify(result);
    if (!kept) return this.#world.violate("an answer has its record", `${key}: ${said}`);
    if (!result.ran) {
      if (kept.by !== result.by)
        this.#world.violate("an answer has its record", `${key} of ${kept.by}: ${said}`);
      return;
    }
    if (kept.answered) this.#world.violate("one caller is answered that it ran", `${key}: ${said}`);
    kept.answered = true;
  }

  /** @param waiting callers that have not been answered for each of their keys */
  unsettled(keys: readonly string[], views: readonly OnceView[], waiting: number): Unsettled[] {
    const done = new Set(views.filter(({ state }) => state === "done").map(({ key }) => key));
    const unsettled: Unsettled[] = [];
    for (const key of keys) {
      const what = `${key} was recorded and is gone`;
      const isKept = this.#kept.get(key)?.at(-1)?.untilMs === Number.POSITIVE_INFINITY;
      if (isKept && !done.has(key)) unsettled.push({ property: "no lost record", what });
      if (!this.#kept.has(key)) {
        unsettled.push({ property: "liveness", what: `${key} was never done` });
      }
    }
    if (waiting > 0) {
      unsettled.push({ property: "liveness", what: `${waiting} callers were not answered` });
    }
    return unsettled;
  }
}
