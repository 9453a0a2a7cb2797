/** An operator's tools that fail for a while only, tried again: as core/retrying.ts. */
import { Retrying, UNLESS_APPLIED } from "../core/index.js";
import type { Env } from "../env/index.js";
import type { TaskKey } from "../tasks/port.js";
import type { Control, OperatorActors, RemoteOperator, TaskActs } from "./operations.js";

/** Each call of an actor is tried again on its own, never the act as a whole. */
export function retryingOperator(operator: RemoteOperator, env: Env): RemoteOperator {
  const retrying = new Retrying(env);
  const { audit, keys, limits, revocations } = operator;
  return {
    audit: {
      list: (query) => retrying.read(() => audit.list(query)),
      verify: (checkpoint, from) => retrying.read(() => audit.verify(checkpoint, from)),
      head: () => retrying.read(() => audit.head()),
    },
    keys: { list: (query) => retrying.read(() => keys.list(query)) },
    limits: { read: (namespace) => retrying.read(() => limits.read(namespace)) },
    // A confirmation is about one grant, so a repeated one ends nothing else.
    revocations: {
      list: () => retrying.read(() => revocations.list()),
      confirm: (...confirmation) => retrying.call(() => revocations.confirm(...confirmation)),
    },
    pauses: { list: (namespace) => retrying.read(() => operator.pauses.list(namespace)) },
    perform: (act, work) =>
      operator.perform(act, (actors) => work(retryingActors(actors, retrying))),
  };
}

/** An operator's tools in a database, which takes an action as a whole: it is tried again unless it may have been applied. */
export function retryingControl(control: Control, env: Env): Control {
  const retrying = new Retrying(env);
  return {
    ...control,
    perform: (act, work, onEntry) =>
      retrying.call(() => control.perform(act, work, onEntry), UNLESS_APPLIED),
  };
}

/**
 * Not repeated when their answer is lost: a revoke, which could end the next grant, and acts on tasks and on records of
 * `once`, which may have been changed in between. A schedule's task has an id, so that a repeated run makes no second one.
 */
function retryingActors(actors: OperatorActors, retrying: Retrying): OperatorActors {
  const { leases, tasks, once, schedules, taskLimits, generator, pauses } = actors;
  const onTasks = (operation: keyof TaskActs) => (keys: readonly TaskKey[]) =>
    retrying.batch(keys, (some) => tasks[operation](some), UNLESS_APPLIED);
  return {
    leases: {
      revoke: (requests, options) =>
        retrying.batch(
          requests,
          (some, timeoutMs) => leases.revoke(some, { ...options, timeoutMs }),
          { ...options, ...UNLESS_APPLIED },
        ),
    },
    tasks: { cancel: onTasks("cancel"), retry: onTasks("retry"), delete: onTasks("delete") },
    once: {
      retry: (key) => retrying.call(() => once.retry(key), UNLESS_APPLIED),
      delete: (key) => retrying.call(() => once.delete(key), UNLESS_APPLIED),
    },
    schedules: {
      pause: (request) => retrying.call(() => schedules.pause(request)),
      resume: (key) => retrying.call(() => schedules.resume(key)),
      remove: (key) => retrying.call(() => schedules.remove(key), UNLESS_APPLIED),
      runNow: (request) => retrying.one(() => schedules.runNow(request)),
    },
    taskLimits: {
      declare: (request) => retrying.one(() => taskLimits.declare(request)),
      remove: (key) => retrying.call(() => taskLimits.remove(key), UNLESS_APPLIED),
    },
    generator: {
      write: (namespace, change) => retrying.call(() => generator.write(namespace, change)),
    },
    pauses: {
      set: (pause) => retrying.call(() => pauses.set(pause)),
      clear: (key) => retrying.call(() => pauses.clear(key)),
    },
  };
}
