/** Tasks with a concurrency key on workers that crash and pause: at most so many of a key at a time, in order, all done. */

import { defineTask, type NewTask } from "leasehold";
import { KeyChecker } from "../checkers/keys.js";
import { TaskChecker } from "../checkers/tasks.js";
import type { Running, Simulation } from "../simulation.js";
import { judged, LASTING, taskLoad } from "./task-load.js";

const KEYS = 3;

export function keys(sim: Simulation): Running {
  const { world, database, ttlMs } = sim;
  const perKey = 1 + Math.floor(world.random.float() * 2);
  const job = defineTask<{ key: string }>("job", {
    concurrencyKey: ({ key }) => key,
    perKey,
    ...LASTING,
  });
  const done = new TaskChecker(world);
  const checker = new KeyChecker(world, perKey);
  const { tasks: store } = sim.kept;

  const nowMs = () => database.monotonicMs;
  const judge = {
    added: ({ id, concurrency }: NewTask) => checker.added(id, concurrency?.key ?? ""),
    claimed: checker.claimed.bind(checker),
    renewed: checker.renewed.bind(checker),
    returned: checker.returned.bind(checker),
    finished: checker.finished.bind(checker),
  };
  sim.kept.tasks = judged(store, nowMs, judge, done);

  return taskLoad(sim, store, done, {
    jobOf: () => job,
    dataOf: (number) => ({ key: `key-${number % KEYS}` }),
    pauseMs: ttlMs * 0.5,
    steps: 12,
    concurrency: 4,
  });
}
