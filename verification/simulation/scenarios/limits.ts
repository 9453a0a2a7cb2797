/** Tasks of a limited kind, with rates, on workers that crash and pause: never more at once or in a window, all done. */
import { defineTask, type NewTask } from "leasehold";
import { LimitChecker } from "../checkers/limits.js";
import { TaskChecker } from "../checkers/tasks.js";
import type { Running, Simulation } from "../simulation.js";
import { judged, LASTING, taskLoad } from "./task-load.js";

const KEYS = 3;

export function limits(sim: Simulation): Running {
  const { world, database, ttlMs } = sim;
  const running = 1 + Math.floor(world.random.float() * 3);
  const rate = { limit: running + 2, perMs: ttlMs };
  const keyRate = { limit: 2, perMs: Math.ceil(ttlMs / 2) };
  const job = defineTask<{ key: string }>("job", {
    limit: { running, rate },
    concurrencyKey: ({ key }) => key,
    perKey: 2,
    order: "any",
    rate: keyRate,
    ...LASTING,
  });
  const done = new TaskChecker(world);
  const checker = new LimitChecker(world, { running, rate, keyRate });
  const { tasks: store } = sim.kept;
  // As the clock of the store, which shows whole milliseconds.
  const nowMs = () => Math.floor(database.monotonicMs);
  const judge = {
    added: ({ id, concurrency }: NewTask) => checker.added(id, concurrency?.key ?? ""),
    claimed: checker.claimed.bind(checker),
    renewed: checker.renewed.bind(checker),
    returned: checker.ended.bind(checker),
    finished: checker.ended.bind(checker),
  };
  sim.kept.tasks = judged(store, nowMs, judge, done);

  return taskLoad(sim, store, done, {
    jobOf: () => job,
    dataOf: (number) => ({ key: `key-${number % KEYS}` }),
    pauseMs: ttlMs * 0.5,
    steps: 8,
    concurrency: 4,
  });
}
