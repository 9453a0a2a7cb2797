/** The tenant's limit of live tasks, for retries: they bring dead, cancelled and expired tasks to life. */
import type { Context } from "hono";
import type { AdminOutcome, TaskState, TaskStore } from "leasehold/internal";
import { callerOf } from "../auth/caller.js";
import { knownTasks } from "../quotas/known-tasks.js";
import type { AppEnv } from "../request.js";
import type { Services } from "../services.js";

/** A retry of a task in another state adds no live task. */
const ENDED: readonly TaskState[] = ["dead", "cancelled", "expired"];

interface Known {
  readonly id: string;
  readonly state: TaskState;
}

/**
 * Reserves quota for all of the tasks. The states are read only if there is too little for as many.
 * @returns how much was reserved
 * @throws LIMIT_REACHED
 */
export async function reserveForIds(
  services: Services,
  context: Context<AppEnv>,
  ids: readonly string[],
): Promise<number> {
  const wanted = new Set(ids);
  if (await services.tryReserve(context, "tasks", wanted.size)) return wanted.size;
  const ended = await countEnded(services, context, [...wanted]);
  // To the quota, each of them is a new one.
  const news = Array.from({ length: ended }, () => null);
  if (ended > 0) await services.reserveQuota(context, "tasks", news);
  return ended;
}

/**
 * Reserves quota for as many of the tasks as there is quota for, in their order.
 * @returns the tasks to retry, and how much was reserved
 * @throws LIMIT_REACHED if there is none, and a task needs it
 */
export async function reserveForMatching(
  services: Services,
  context: Context<AppEnv>,
  tasks: readonly Known[],
): Promise<{ ids: string[]; reserved: number }> {
  const ended = tasks.filter(({ state }) => ENDED.includes(state)).map(({ id }) => id);
  const reserved = await services.reserveUpTo(context, "tasks", ended.length);
  const left = new Set(ended.slice(reserved));
  return { ids: tasks.map(({ id }) => id).filter((id) => !left.has(id)), reserved };
}

/**
 * Runs the retry that the quota was reserved for, and returns the quota of tasks that were not retried: of all, if the
 * retry throws. It may have been carried out then, which the next count of the tasks will show.
 */
export async function withReserved(
  services: Services,
  context: Context<AppEnv>,
  reserved: number,
  retry: () => Promise<AdminOutcome[]>,
): Promise<AdminOutcome[]> {
  let retried = 0;
  try {
    const outcomes = await retry();
    retried = outcomes.filter(({ status }) => status === "ok").length;
    return outcomes;
  } finally {
    services.returnQuota(context, "tasks", Math.max(0, reserved - retried));
  }
}

async function countEnded(
  services: Services,
  context: Context<AppEnv>,
  ids: readonly string[],
): Promise<number> {
  const { namespace } = callerOf(context);
  const budget = services.budget(context);
  const list: TaskStore["list"] = (query) => budget.read(() => services.tasks.list(query));
  let ended = 0;
  for await (const { found } of knownTasks({ list }, namespace, ids)) {
    ended += found.filter(({ state }) => ENDED.includes(state)).length;
  }
  return ended;
}
