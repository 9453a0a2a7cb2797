/** What the calls of a program take. */
import type { Env } from "../env/index.js";
import {
  checkArray,
  checkInteger,
  checkKnown,
  checkNames,
  checkOptional,
  type SqlTransaction,
} from "../lease/index.js";
import type { TaskStatsQuery, TaskStore } from "./port.js";
import type { ScheduleStore } from "./schedules/port.js";
import { TASK_DEFAULTS, type TaskDefaults } from "./settings.js";

/** Where tasks are kept, and their schedules if the store keeps any. */
export interface TaskStores {
  readonly tasks: TaskStore;
  readonly schedules?: ScheduleStore | undefined;
}

export interface TasksOptions {
  /** The namespace of the tasks. Default `default`. */
  namespace?: string;
  /** The holder name of this client, recorded with every attempt. Default `<host>-<pid>-<random>`. */
  holder?: string;
  /** A pino logger, or an object with the same methods. Default: warnings and errors are warnings of the process, each once. */
  logger?: Env["logger"];
  /** Clock, randomness and logger, for tests and simulation. Default: the system's. */
  env?: Partial<Env>;
}

/** Options of one task. They override the defaults of its definition. */
export interface EnqueueTaskOptions extends TaskDefaults {
  /** When the task becomes due, by the store's clock. Default: at once. */
  scheduledAt?: Date;
  /** At most one unfinished task exists per kind and key. Enqueueing a second one returns the id of the first. Default: none. */
  dedupeKey?: string;
  /**
   * Any text of 1 to 200 characters; default: a new UUIDv7. Enqueueing the same task again adds and changes nothing: its other
   * options, such as `priority`, stay as they are. Another kind, queue or data under the same id is TASK_CONFLICT.
   */
  id?: string;
  /** A client in a SQL transaction. The task is added in it, and exists once the transaction commits. Default: in one of its own. */
  client?: SqlTransaction;
}

/** One task of `enqueueAll`. */
export interface TaskToEnqueue<Input> extends Omit<EnqueueTaskOptions, "client"> {
  readonly data: Input;
}

const OF_ONE_TASK = { scheduledAt: true, dedupeKey: true, id: true, ...TASK_DEFAULTS } as const;
export const ENQUEUE_OPTIONS: Readonly<Record<keyof EnqueueTaskOptions, true>> = {
  ...OF_ONE_TASK,
  client: true,
};
const ENQUEUE_FIELDS: Readonly<Record<keyof TaskToEnqueue<unknown>, true>> = {
  ...OF_ONE_TASK,
  data: true,
};

/** @throws INVALID_OPTION */
export function checkTasksToEnqueue(tasks: unknown, options: unknown): void {
  checkArray("tasks", tasks);
  checkKnown(options, { client: true });
  for (const [at, task] of tasks.entries()) checkKnown(task, ENQUEUE_FIELDS, `tasks.${at}`);
}

/** Whether ids are made for these tasks, so that no other transaction has them. */
export function areIdsNew(tasks: readonly TaskToEnqueue<unknown>[]): boolean {
  return tasks.every(({ id }) => id === undefined);
}

/** Which tasks `stats` counts. */
export type TaskStatsOptions = Partial<Omit<TaskStatsQuery, "namespace" | "versions">>;
/** The most tasks of each state that one call counts: it must stay cheap. */
export const COUNTED = 20_000;
const STATS_OPTIONS: Readonly<Record<keyof TaskStatsOptions, true>> = {
  queues: true,
  kinds: true,
  unfinishedOnly: true,
  limit: true,
};

/** @throws INVALID_OPTION */
export function checkStatsOptions(options: TaskStatsOptions): void {
  checkKnown(options, STATS_OPTIONS);
  const { queues, kinds, unfinishedOnly, limit } = options;
  if (queues !== undefined) checkNames("queues", queues);
  if (kinds !== undefined) checkNames("kinds", kinds);
  checkOptional("boolean", { unfinishedOnly }, ["unfinishedOnly"]);
  if (limit !== undefined) checkInteger("limit", limit, 1, COUNTED);
}
