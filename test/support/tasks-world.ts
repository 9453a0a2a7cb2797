/** Tasks in memory under a manual clock, for clients whose calls a test can replace one by one. */
import { silentLogger } from "../../src/env/index.js";
import { MemoryTaskState, MemoryTaskStore } from "../../src/stores/memory/tasks.js";
import { type TaskStore, Tasks } from "../../src/tasks/index.js";
import { manualEnv } from "../../src/testing/index.js";

export function tasksWorld(logger = silentLogger) {
  const env = manualEnv({ logger });
  const state = new MemoryTaskState(env);
  const store = new MemoryTaskStore(state);
  const client = (holder: string, over: Partial<TaskStore> = {}) => {
    const own = new Proxy<TaskStore>(store, {
      get(target, name: keyof TaskStore) {
        const value = over[name] ?? target[name];
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    return new Tasks(own, { env, holder }, { close: undefined });
  };
  return { env, clock: env.clock, store, client, tasks: client("me") };
}
