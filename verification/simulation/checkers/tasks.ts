/** Tasks: each that was accepted is kept, and completed for the first time once. */
import type { Unsettled } from "../simulation.js";
import type { World } from "../world.js";

export class TaskChecker {
  /** Tasks that the store has confirmed to have. */
  readonly accepted = new Set<string>();
  /** Tasks that a producer has tried to enqueue. */
  enqueued = 0;
  readonly #world: World;
  /** How often each was completed for the first time. */
  readonly #completed = new Map<string, number>();

  constructor(world: World) {
    this.#world = world;
  }

  /** The store has applied a completion that is no repetition. */
  completed(id: string, token: number): void {
    const times = (this.#completed.get(id) ?? 0) + 1;
    this.#completed.set(id, times);
    if (times > 1)
      this.#world.violate(
        "a task completes once",
        `${id} completed ${times} times, by token ${token}`,
      );
  }

  async unsettled(
    counts: Readonly<Record<string, number>> & { readonly done: number },
    exists: (id: string) => Promise<boolean>,
  ): Promise<Unsettled[]> {
    const { accepted, enqueued } = this;
    const unsettled: Unsettled[] = [];
    const rest = Object.entries(counts).filter(([state, count]) => state !== "done" && count > 0);
    const all = JSON.stringify(counts);
    if (rest.length > 0) unsettled.push({ property: "liveness", what: `not all done: ${all}` });
    for (const id of accepted) {
      const what = `${id} was accepted and is gone`;
      if (!(await exists(id))) unsettled.push({ property: "no lost task", what });
    }
    if (counts.done < accepted.size || counts.done > enqueued) {
      const what = `${accepted.size} accepted, ${enqueued} enqueued, ${counts.done} done`;
      unsettled.push({ property: "no lost task", what });
    }
    return unsettled;
  }
}
