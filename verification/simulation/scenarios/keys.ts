/** Tasks with a concurrency key on workers that crash and pause: at most so many of a key at a time, in order, all done. */

import { defineTask } from "leasehold";
import { KeyChecker } from "../checkers/keys.js";
import { TaskChecker } from "../checkers/tasks.js";
import type { Running, Simulation } from "../simulation.js";
import { bound, LASTING, taskLoad } from "./task-load.js";

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

  /** Everything is judged where it takes effect: in the store. */
  sim.kept.tasks = {
    ...bound(store),
    async enqueue(added, options) {
      const outcomes = await store.enqueue(added, options);
      for (const { id, concurrency } of added) checker.added(id, concurrency?.key ?? "");
      return outcomes;
    },
    async claim(request, options) {
      const nowMs = database.monotonicMs;
      const outcome = await store.claim(request, options);
      for (const { id, token, remainingMs } of outcome.status === "claimed" ? outcome.tasks : []) {
        checker.claimed(id, token, nowMs + remainingMs, nowMs);
      }
      return outcome;
    },
    async heartbeat(requests, options) {
      const nowMs = database.monotonicMs;
      const outcomes = await store.heartbeat(requests, options);
      for (const [index, { id, token }] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status === "renewed") checker.renewed(id, token, nowMs + outcome.remainingMs);
      }
      return outcomes;
    },
    async complete(requests, options) {
      const outcomes = await store.complete(requests, options);
      for (const [index, { id, token }] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status !== "completed" || outcome.repeated) continue;
        done.completed(id, token);
        checker.finished(id);
      }
      return outcomes;
    },
    async fail(requests, options) {
      const outcomes = await store.fail(requests, options);
      for (const [index, { id }] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status === "recorded" && !outcome.repeated) checker.returned(id);
      }
      return outcomes;
    },
    async requeue(requests, options) {
      const outcomes = await store.requeue(requests, options);
      for (const [index, { id }] of requests.entries()) {
        const outcome = outcomes[index];
        if (outcome?.status === "returned" && !outcome.repeated) checker.returned(id);
      }
      return outcomes;
    },
  };

  return taskLoad(sim, store, done, {
    jobOf: () => job,
    dataOf: (number) => ({ key: `key-${number % KEYS}` }),
    pauseMs: ttlMs * 0.5,
    steps: 12,
    concurrency: 4,
  });
}
