/** The work of a node: it begins while its lease is held, and never before its last one has ended. */
import type { World } from "../world.js";

export class WorkChecker {
  readonly #world: World;
  readonly #running = new Map<string, number>();

  constructor(world: World) {
    this.#world = world;
  }

  /** @param signal of the lease, where the work must not begin after its end */
  begin(node: string, signal?: AbortSignal): void {
    if (signal?.aborted)
      this.#world.violate(
        "nothing is stopped that has not begun",
        `${node} began when it was over`,
      );
    const running = (this.#running.get(node) ?? 0) + 1;
    this.#running.set(node, running);
    if (running > 1)
      this.#world.violate("a node's work never overlaps itself", `${running} at once on ${node}`);
  }

  end(node: string): void {
    this.#running.set(node, (this.#running.get(node) ?? 1) - 1);
  }
}
