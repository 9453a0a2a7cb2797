/**
 * A rolling deployment: workers of two versions of a kind, which crash and pause. Each task is done once by a worker of its
 * version or a later one, and none is dead.
 */
import { defineTask, type Json, type TaskDefinition } from "leasehold";
import { TaskChecker } from "../checkers/tasks.js";
import { VersionChecker } from "../checkers/versions.js";
import type { Process } from "../machine.js";
import type { Running, Simulation } from "../simulation.js";
import { bound, LASTING, taskLoad } from "./task-load.js";

/** What each version enqueues. */
interface Data {
  readonly shape: number;
}

export function versions(sim: Simulation): Running {
  const { world, ttlMs } = sim;
  const done = new TaskChecker(world);
  const checker = new VersionChecker(world);
  const { tasks: store } = sim.kept;
  sim.kept.tasks = {
    ...bound(store),
    async complete(requests, options) {
      const outcomes = await store.complete(requests, options);
      for (const [index, { id, token }] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status === "completed" && !outcome.repeated) done.completed(id, token);
      }
      return outcomes;
    },
  };

  const first = defineTask<Data>("job", LASTING);
  const second = defineTask<Data>("job", {
    ...LASTING,
    version: 2,
    upgrade(data: Json) {
      if (world.random.float() < 0.1) throw new Error("an upgrade fails now and then");
      return { ...(data as object), shape: 2 };
    },
  });
  const deployed = new Set<string>();
  /** What restarts is of the new version. One machine is so from the beginning, so that its tasks are run. */
  const jobOf = ({ name }: Process): TaskDefinition<Data> => {
    const machine = name.replace(/\W.*$/, "");
    const isNew = deployed.size === 0 || deployed.has(machine) || world.random.float() < 0.3;
    deployed.add(machine);
    return isNew ? second : first;
  };

  return taskLoad(sim, store, done, {
    jobOf,
    dataOf: (_number, job) => ({ shape: job.version ?? 1 }),
    begun: (job, { shape }, { id, version }) =>
      checker.handled(id, { worker: job.version ?? 1, task: version, shape }),
    pauseMs: ttlMs,
    steps: 12,
    concurrency: 3,
  });
}
