/** Versions of a kind: a worker gets no task of a later one, and data as its own version has it. */
import type { World } from "../world.js";

export class VersionChecker {
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  /** A handler has begun a task. @param shape the version whose data it got */
  handled(
    id: string,
    of: { readonly worker: number; readonly task: number; readonly shape: number },
  ) {
    const { worker, task, shape } = of;
    if (task > worker) {
      const what = `${id} of version ${task} runs on a worker of version ${worker}`;
      this.#world.violate("no worker gets a later version", what);
    }
    if (shape !== worker) {
      const what = `${id} came to version ${worker} with data of version ${shape}`;
      this.#world.violate("data is upgraded", what);
    }
    if (task < worker) this.#world.cover("an earlier version upgraded");
  }
}
