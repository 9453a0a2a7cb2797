import {
  type Clock,
  type Logger,
  newLeaseId,
  silentLogger,
  taskIds,
} from "../../../packages/leasehold/src/env/index.js";
import { memory } from "../../../packages/leasehold/src/stores/memory/index.js";
import type {
  ClaimRequest,
  NewTask,
  TaskCapabilities,
  TaskStore,
} from "../../../packages/leasehold/src/tasks/port.js";
import { Ready } from "../../../packages/leasehold/src/tasks/ready.js";
import { manualEnv } from "../../../packages/leasehold/src/testing/index.js";
import { newTaskOf } from "../../../packages/leasehold/src/testing/task-suite/new-task.js";

/** Claims that wait on a store in memory, which counts what it is asked and whose methods a test can replace. */
export async function readyWorld(
  options: Partial<TaskCapabilities> & { logger?: Logger; timersEarlyMs?: number } = {},
) {
  const { logger = silentLogger, timersEarlyMs = 0, ...capabilities } = options;
  const env = manualEnv({ logger });
  const clock = env.clock;
  const { tasks } = await memory().open(env);
  const asked = { claims: 0, watches: 0 };
  const store: TaskStore = Object.assign(Object.create(tasks) as TaskStore, {
    capabilities: { ...tasks.capabilities, ...capabilities },
    enqueue: tasks.enqueue.bind(tasks),
    requeue: tasks.requeue.bind(tasks),
    delete: tasks.delete.bind(tasks),
    reap: tasks.reap.bind(tasks),
    collect: tasks.collect.bind(tasks),
    counts: tasks.counts.bind(tasks),
    claim: (...args: Parameters<TaskStore["claim"]>) => {
      asked.claims += 1;
      return tasks.claim(...args);
    },
    watch: (...args: Parameters<TaskStore["watch"]>) => {
      asked.watches += 1;
      return tasks.watch(...args);
    },
  });
  const hasty: Clock = {
    wall: () => clock.wall(),
    monotonic: () => clock.monotonic(),
    timer: (ms, ...rest) => clock.timer(Math.max(0, ms - timersEarlyMs), ...rest),
  };
  const ready = new Ready(store, "default", { ...env, clock: hasty });
  const newTaskId = taskIds(clock, env.random);
  const task = (change: Partial<NewTask> = {}) =>
    newTaskOf(
      { namespace: "default", id: newTaskId() },
      { backoff: { firstMs: 0, longestMs: 0 }, ...change },
    );
  const request = (change: Partial<ClaimRequest> = {}): ClaimRequest => ({
    namespace: "default",
    claimId: newLeaseId(env.random),
    holder: "holder",
    queues: ["queue"],
    kinds: null,
    limit: 1,
    ttlMs: 10_000,
    waitMs: 60_000,
    ...change,
  });
  /** Begins to wait; how many tasks it got, null while it waits. */
  const wait = (change: Partial<ClaimRequest> = {}, signal?: AbortSignal) => {
    const state: { got: number | null } = { got: null };
    void ready.claim(request(change), signal ? { signal } : {}).then((outcome) => {
      state.got = outcome.status === "claimed" ? outcome.tasks.length : -1;
    });
    return state;
  };
  return { clock, env, store, tasks, ready, asked, task, request, wait };
}
