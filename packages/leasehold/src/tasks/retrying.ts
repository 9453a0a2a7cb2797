/** Task stores that fail for a while only, tried again: as core/retrying.ts. */
import { Retrying, UNLESS_APPLIED } from "../core/index.js";
import type { Env } from "../env/index.js";
import type { GeneratorState, TaskLimits, TaskStore } from "./port.js";

const DEFAULT_TIMEOUT_MS = 5_000;

/**
 * The store with retries. A worker's repeated call gets the same answer as the first. Operator actions
 * are not retried when their answer is lost: the task may have changed in between.
 */
export function retryingTasks(store: TaskStore, env: Env): TaskStore {
  const retrying = new Retrying(env);
  return {
    capabilities: store.capabilities,
    ...retryingCalls(store, retrying),
    enqueue: (tasks, options) =>
      retrying.batch(
        tasks,
        (some, timeoutMs) => store.enqueue(some, { ...options, timeoutMs }),
        options,
      ),
    claim(request, options) {
      // It may wait in the store.
      const { waitMs = 0 } = request;
      return retrying.one((timeoutMs) => store.claim(request, { ...options, timeoutMs }), {
        timeoutMs: waitMs + DEFAULT_TIMEOUT_MS,
        ...options,
      });
    },
    heartbeat: (requests, options) =>
      retrying.batch(
        requests,
        (some, timeoutMs) => store.heartbeat(some, { ...options, timeoutMs }),
        options,
      ),
    complete: (requests, options) =>
      retrying.batch(
        requests,
        (some, timeoutMs) => store.complete(some, { ...options, timeoutMs }),
        options,
      ),
    fail: (requests, options) =>
      retrying.batch(
        requests,
        (some, timeoutMs) => store.fail(some, { ...options, timeoutMs }),
        options,
      ),
    requeue: (requests, options) =>
      retrying.batch(
        requests,
        (some, timeoutMs) => store.requeue(some, { ...options, timeoutMs }),
        options,
      ),
    results: (tasks, options) => retrying.read(() => store.results(tasks, options)),
    watchResults: (namespace, options) => store.watchResults(namespace, options),
    reap: () => retrying.call(() => store.reap()),
    collect: (limit) => retrying.call(() => store.collect(limit)),
    watch: (namespace, options) => store.watch(namespace, options),
    close() {
      retrying.close();
      return store.close();
    },
  };
}

/** The calls that no loop of a client repeats: reads, and actions of operators. */
export function retryingCalls(store: TaskStore, retrying: Retrying) {
  return {
    cancel: (tasks) => retrying.batch(tasks, (some) => store.cancel(some), UNLESS_APPLIED),
    retry: (tasks) => retrying.batch(tasks, (some) => store.retry(some), UNLESS_APPLIED),
    delete: (tasks) => retrying.batch(tasks, (some) => store.delete(some), UNLESS_APPLIED),
    get: (task) => retrying.read(() => store.get(task)),
    list: (query) => retrying.read(() => store.list(query)),
    counts: (namespace) => retrying.read(() => store.counts(namespace)),
    ...(store.dueKinds && {
      dueKinds: (query) => retrying.read(async () => (await store.dueKinds?.(query)) ?? []),
    }),
    ...(store.blockedKeys && {
      blockedKeys: (query) => retrying.read(async () => (await store.blockedKeys?.(query)) ?? []),
    }),
    ...(store.limits && { limits: retryingLimits(store.limits, retrying) }),
    stats: (query) => retrying.read(() => store.stats(query)),
    leases: (query) => retrying.read(() => store.leases(query)),
  } satisfies Partial<TaskStore>;
}

/** A removal is not repeated when its answer is lost: a program may have declared the limit again. */
function retryingLimits(limits: TaskLimits, retrying: Retrying): TaskLimits {
  return {
    declare: (request, options) =>
      retrying.one((timeoutMs) => limits.declare(request, { ...options, timeoutMs }), options),
    list: (namespace) => retrying.read(() => limits.list(namespace)),
    remove: (key) => retrying.call(() => limits.remove(key), UNLESS_APPLIED),
  };
}

/** The state is wanted, not counted: writing it twice is writing it once. */
export function retryingGenerator(state: GeneratorState, env: Env): GeneratorState {
  const retrying = new Retrying(env);
  return {
    read: (namespace) => retrying.read(() => state.read(namespace)),
    write: (namespace, change) => retrying.call(() => state.write(namespace, change)),
  };
}
