/** Tasks in memory under a manual clock, for clients whose calls a test can replace one by one. */
import { silentLogger, type Telemetry } from "../../../packages/leasehold/src/env/index.js";
import { MemoryTaskState } from "../../../packages/leasehold/src/stores/memory/task-state.js";
import { MemoryTaskStore } from "../../../packages/leasehold/src/stores/memory/tasks.js";
import { defineTask, type HandlerContext } from "../../../packages/leasehold/src/tasks/define.js";
import {
  type Json,
  type TaskStore,
  tasksOver,
} from "../../../packages/leasehold/src/tasks/index.js";
import { manualEnv } from "../../../packages/leasehold/src/testing/index.js";

export function tasksWorld(logger = silentLogger, telemetry?: Telemetry) {
  const env = { ...manualEnv({ logger }), ...(telemetry && { telemetry }) };
  const state = new MemoryTaskState(env);
  const store = new MemoryTaskStore(state);
  const client = (holder: string, over: Partial<TaskStore> = {}) => {
    const own = new Proxy<TaskStore>(store, {
      get(target, name: keyof TaskStore) {
        const value = over[name] ?? target[name];
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    const { tasks, close } = tasksOver({ tasks: own }, { env, holder }, { close: undefined });
    return Object.assign(tasks, { close });
  };
  return { env, clock: env.clock, store, client, tasks: client("me") };
}

export const echo = defineTask<Json>("echo");

/** A handler whose runs the test ends one by one. */
export function stepped() {
  const runs: {
    data: Json;
    context: HandlerContext;
    end: (output?: Json) => void;
    fail: (error: Error) => void;
  }[] = [];
  const handler = echo.handle(
    (data, context) =>
      new Promise<Json>((resolve, reject) => {
        runs.push({ data, context, end: (output = "done") => resolve(output), fail: reject });
      }),
  );
  return { runs, handler };
}
