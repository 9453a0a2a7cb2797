/** Every task is done once, and none is lost. */

import { defineTask } from "leasehold";
import { TaskChecker } from "../checkers/tasks.js";
import type { Running, Simulation } from "../simulation.js";
import { bound, LASTING, taskLoad } from "./task-load.js";

const job = defineTask<{ number: number }>("job", LASTING);

export function tasks(sim: Simulation): Running {
  const { world, ttlMs } = sim;
  const checker = new TaskChecker(world);

  /** Counts completions where they take effect: in the store. */
  const { tasks: store } = sim.kept;
  sim.kept.tasks = {
    ...bound(store),
    async complete(requests, options) {
      const outcomes = await store.complete(requests, options);
      for (const [index, { id, token }] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status === "refused")
          world.cover(`late completion refused: ${outcome.reason}`);
        if (outcome?.status !== "completed") continue;
        if (outcome.repeated) world.cover("repeated completion answered");
        else checker.completed(id, token);
      }
      return outcomes;
    },
  };

  return taskLoad(sim, store, checker, {
    jobOf: () => job,
    dataOf: (number) => ({ number }),
    pauseMs: ttlMs,
    steps: 15,
    concurrency: 3,
  });
}
