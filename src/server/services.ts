/** What the routes work with: the ports, and the concurrent callers of each gathered into batches. */
import type { Context } from "hono";
import type { GrantHistory } from "../control/index.js";
import { type Env, taskIds } from "../env/index.js";
import { Batcher, type LeaseStore } from "../lease/index.js";
import type { GeneratorState, NewTask, TaskStore } from "../tasks/index.js";
import { type LeaseCalls, type LeaseCallsOptions, newLeaseCalls } from "./lease-calls.js";
import { type AppEnv, Budget } from "./request.js";
import type { Tenants } from "./tenants.js";

export interface Services {
  readonly env: Env;
  readonly leases: LeaseStore;
  readonly tasks: TaskStore;
  readonly generator: GeneratorState;
  /** What ended and was replaced, with all that this instance has recorded; undefined: nobody keeps it. */
  readonly history: Pick<GrantHistory, "list" | "find"> | undefined;
  readonly tenants: Tenants;
  /** For tasks that come without an id: those of one request in its order. */
  readonly newTaskId: () => string;
  readonly batchedTasks: BatchedTasks;
  budget(context: Context<AppEnv>): Budget;
  /**
   * For all changes of leases. Reads the request's budget, once: ask for it right before the first.
   * @throws BUDGET_SPENT
   */
  leaseCalls(context: Context<AppEnv>): LeaseCalls;
}

export type BatchedTasks = ReturnType<typeof batchTasks>;

export function batchTasks(store: TaskStore, { clock }: Env) {
  const plain = new Batcher(store.enqueue.bind(store), clock);
  // Somebody's open transaction on a dedupeKey holds up those that come with one, not the others.
  const deduped = new Batcher(store.enqueue.bind(store), clock);
  return {
    /** In one lane: what is added together keeps its order. */
    enqueue: (tasks: readonly NewTask[], timeoutMs: number) => {
      const lane = tasks.every(({ dedupeKey }) => dedupeKey === null) ? plain : deduped;
      return Promise.all(tasks.map((task) => lane.submit(task, timeoutMs)));
    },
    heartbeat: new Batcher(store.heartbeat.bind(store), clock),
    complete: new Batcher(store.complete.bind(store), clock),
    fail: new Batcher(store.fail.bind(store), clock),
    giveBack: new Batcher(store.giveBack.bind(store), clock),
  };
}

type Ports = Pick<Services, "env" | "leases" | "tasks" | "generator" | "history" | "tenants">;

export function newServices(
  ports: Ports,
  listeners: Pick<LeaseCallsOptions, "onLeaseEvent" | "onReplaced"> = {},
): Services {
  const { env, tasks } = ports;
  const budget = (context: Context<AppEnv>) => new Budget(context, env.clock);
  const callsOf = newLeaseCalls({ ...ports, ...listeners });
  return {
    ...ports,
    newTaskId: taskIds(env.clock, env.random),
    batchedTasks: batchTasks(tasks, env),
    budget,
    leaseCalls: (context) => callsOf(context, budget(context)),
  };
}
