/** The tasks of one namespace: enqueue, list, cancel and retry them, and start workers. */
import {
  ClosedError,
  checkArray,
  checkKnown,
  checkName,
  checkNewName,
  checkPage,
  LEASE_STATES,
  type LeaseView,
  type Owned,
  type Page,
  type SqlTransaction,
} from "../core/index.js";
import {
  type Env,
  invariant,
  newHolder,
  type Repeating,
  systemEnv,
  taskIds,
} from "../env/index.js";
import { Adding } from "./adding.js";
import {
  checkDefinition,
  checkIds,
  checkScheduledAt,
  settingsOf,
  TASK_DEFAULTS,
  type TaskDefaults,
  type TaskDefinition,
  type TaskHandler,
} from "./define.js";
import {
  type NewTask,
  TASK_STATES,
  type TaskDetails,
  type TaskLeaseQuery,
  type TaskQuery,
  type TaskState,
  type TaskStore,
  type TaskView,
} from "./port.js";
import { Ready } from "./ready.js";
import { startReaper } from "./reaper.js";
import { checkTaskId } from "./record.js";
import { type AdminResult, type Enqueued, onlyOne, settled } from "./results.js";
import type { DueKinds } from "./unhandled.js";
import { type Worker, type WorkerOptions, workerOver } from "./worker.js";

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
  /** At most one unfinished task exists per kind and key. Enqueueing a second one returns the id of the first. */
  dedupeKey?: string;
  /**
   * Any text of 1 to 200 characters; default: a new UUIDv7. Enqueueing the same task again adds and changes nothing: its other
   * options, such as `priority`, stay as they are. Another kind, queue or data under the same id is TASK_CONFLICT.
   */
  id?: string;
  /** A client in a SQL transaction. The task is added in it, and exists once the transaction commits. */
  client?: SqlTransaction;
}

/** One task of `enqueueAll`. */
export interface TaskToEnqueue<Input> extends Omit<EnqueueTaskOptions, "client"> {
  readonly data: Input;
}

const OF_ONE_TASK = { scheduledAt: true, dedupeKey: true, id: true, ...TASK_DEFAULTS } as const;
const ENQUEUE_OPTIONS: Readonly<Record<keyof EnqueueTaskOptions, true>> = {
  ...OF_ONE_TASK,
  client: true,
};
const ENQUEUE_FIELDS: Readonly<Record<keyof TaskToEnqueue<unknown>, true>> = {
  ...OF_ONE_TASK,
  data: true,
};
/** For the command line; undefined if the store cannot group its tasks. */
export let dueKindsOf: (tasks: Tasks) => DueKinds | undefined;
/** Called by `connect()`. It is a function, so that the public type of `Tasks` has no constructor. */
export let tasksOver: (store: TaskStore, options: TasksOptions, owned: Owned) => TasksClient;

/** A `Tasks` with its `close`, which is not public: `Leasehold.close` calls it. */
export interface TasksClient {
  readonly tasks: Tasks;
  /** Drains the workers (see `Worker.close`), then closes what the client owns. Repeated calls return one promise. */
  close(): Promise<void>;
}

/**
 * The tasks of one namespace: `leasehold.tasks`.
 * @example
 * ```ts
 * import { connect, defineTask } from "leasehold";
 *
 * const leasehold = await connect("memory:");
 * const mail = defineTask("mail");
 * const { id } = await leasehold.tasks.enqueue(mail, { to: "ada@example.com" });
 * console.log(await leasehold.tasks.get(id), await leasehold.tasks.counts());
 * console.log(await leasehold.tasks.leases({ states: ["live"] }));
 * await leasehold.close();
 * ```
 */
export class Tasks {
  static {
    dueKindsOf = (tasks) => {
      const dueKinds = tasks.#store.dueKinds?.bind(tasks.#store);
      const { namespace } = tasks;
      return dueKinds && ((query) => dueKinds({ ...query, namespace }));
    };
    tasksOver = (store, options, owned) => {
      const tasks = new Tasks(store, options, owned);
      return { tasks, close: () => (tasks.#closed ??= tasks.#close()) };
    };
  }

  /** The holder name of this client's workers: `options.holder`, or a generated one. */
  readonly holder: string;
  /** The namespace of the tasks. */
  readonly namespace: string;
  readonly #store: TaskStore;
  readonly #env: Env;
  readonly #owned: Owned;
  readonly #newId: () => string;
  readonly #adding: Adding;
  readonly #workers = new Set<Worker>();
  readonly #ready: Ready;
  #reaper: Repeating | undefined;
  #closed: Promise<void> | undefined;

  private constructor(store: TaskStore, options: TasksOptions, owned: Owned) {
    this.#env = {
      ...systemEnv,
      ...(options.logger ? { logger: options.logger } : {}),
      ...options.env,
    };
    this.namespace = options.namespace ?? "default";
    this.holder = options.holder ?? newHolder(this.#env.random);
    checkName("namespace", this.namespace);
    checkName("holder", this.holder);
    this.#store = store;
    this.#owned = owned;
    this.#newId = taskIds(this.#env.clock, this.#env.random);
    this.#adding = new Adding(store, this.#env);
    this.#ready = new Ready(store, this.namespace, this.#env);
  }

  /**
   * Adds a task. Without `client`, retries a failed call for up to 10 s. The retries send the same id, so they
   * never add a second task.
   * @throws INVALID_OPTION with the name of the field; STORE_UNAVAILABLE (with the outcome `unknown`, the task
   *   may have been added); CLOSED
   * @example
   * ```ts
   * import { connect, defineTask } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const options = { dedupeKey: "ada", scheduledAt: new Date(Date.now() + 60_000) };
   * await leasehold.tasks.enqueue(defineTask("remind"), { who: "Ada" }, options);
   * await leasehold.close();
   * ```
   */
  async enqueue<Input>(
    definition: TaskDefinition<Input, unknown>,
    data: Input,
    options: EnqueueTaskOptions = {},
  ): Promise<Enqueued> {
    checkDefinition(definition);
    checkKnown(options, ENQUEUE_OPTIONS);
    const { client, ...rest } = options;
    const [outcome] = await this.enqueueAll(definition, [{ ...rest, data }], {
      ...(client && { client }),
    });
    invariant(outcome, "one outcome per task");
    return outcome;
  }

  /**
   * Adds many tasks of one kind in one call of the store. The results are in the order of the tasks.
   * @throws as `enqueue`; after STORE_UNAVAILABLE any of the tasks may have been added
   * @example
   * ```ts
   * import { connect, defineTask } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const tasks = [{ data: { to: "ada" } }, { data: { to: "joan" }, priority: -1 }];
   * const enqueued = await leasehold.tasks.enqueueAll(defineTask("mail"), tasks);
   * console.log(enqueued.map(({ id }) => id));
   * await leasehold.close();
   * ```
   */
  async enqueueAll<Input>(
    definition: TaskDefinition<Input, unknown>,
    tasks: readonly TaskToEnqueue<Input>[],
    options: { client?: SqlTransaction } = {},
  ): Promise<Enqueued[]> {
    if (this.#closed) throw new ClosedError();
    checkDefinition(definition);
    checkArray("tasks", tasks);
    checkKnown(options, { client: true });
    for (const [at, task] of tasks.entries()) checkKnown(task, ENQUEUE_FIELDS, `tasks.${at}`);
    const newTasks = await Promise.all(tasks.map((task) => this.#newTask(definition, task)));
    const [first] = newTasks;
    if (!first) return [];
    // The span of the worker that runs the task carries the same id.
    const ids = newTasks.length === 1 ? { "leasehold.task.id": first.id } : {};
    const attributes = { "leasehold.task.kind": first.kind, ...ids };
    const add = async () => {
      const { client } = options;
      if (client) return settled(await this.#store.enqueue(newTasks, { client }));
      const areIdsNew = tasks.every(({ id }) => id === undefined);
      return settled(await this.#adding.add(newTasks, areIdsNew));
    };
    return this.#env.telemetry?.span("leasehold.task enqueue", { attributes }, add) ?? add();
  }

  /**
   * Reads a task with its attempts; null if it does not exist.
   * @throws STORE_UNAVAILABLE, INVALID_OPTION, CLOSED
   */
  async get(id: string): Promise<TaskDetails | null> {
    checkTaskId(id);
    return this.#store.get({ namespace: this.namespace, id });
  }

  /**
   * Lists the tasks that match, newest first. Of data, output and progress above 1 KiB of JSON there is a preview.
   * @throws STORE_UNAVAILABLE, INVALID_OPTION, CLOSED
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const { items } = await leasehold.tasks.list({ kind: "mail", states: ["dead"], limit: 10 });
   * console.log(items.map(({ id, attempt }) => [id, attempt]));
   * await leasehold.close();
   * ```
   */
  async list(query: Omit<TaskQuery, "namespace"> = {}): Promise<Page<TaskView>> {
    checkPage(query, { ids: true, states: true, queue: true, kind: true }, TASK_STATES);
    checkIds(query.ids);
    return this.#store.list({ ...query, namespace: this.namespace });
  }

  /**
   * Lists running and ended grants on tasks, as leases on resources named `task:ID`. The grants of the
   * newest task come first, one page per call.
   * @throws STORE_UNAVAILABLE, INVALID_OPTION, CLOSED
   */
  async leases(query: Omit<TaskLeaseQuery, "namespace"> = {}): Promise<Page<LeaseView>> {
    checkPage(query, { states: true, renewedOnly: true }, LEASE_STATES);
    return this.#store.leases({ ...query, namespace: this.namespace });
  }

  /**
   * Counts the tasks in each state.
   * @throws STORE_UNAVAILABLE, CLOSED
   */
  counts(): Promise<Record<TaskState, number>> {
    return this.#store.counts(this.namespace);
  }

  /**
   * Cancels a pending or running task. From then on, the store refuses the calls of a worker that runs it. The handler
   * learns of it at its next heartbeat, after a third of the worker's `ttlMs` at most; a task that is retried before that
   * may run beside it.
   * @throws STORE_UNAVAILABLE, INVALID_OPTION, CLOSED
   * @example
   * ```ts
   * import { connect, defineTask } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const { id } = await leasehold.tasks.enqueue(defineTask("mail"), {});
   * console.log(await leasehold.tasks.cancel(id));
   * await leasehold.close();
   * ```
   */
  async cancel(id: string): Promise<AdminResult> {
    checkTaskId(id);
    return onlyOne(await this.#store.cancel([{ namespace: this.namespace, id }]));
  }

  /**
   * Makes a dead or cancelled task pending again, or a pending one due now. Its failures and crashes return to 0.
   * @throws STORE_UNAVAILABLE, INVALID_OPTION, CLOSED
   * @example
   * ```ts
   * import { connect, defineTask } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const { id } = await leasehold.tasks.enqueue(defineTask("mail"), {});
   * console.log(await leasehold.tasks.retry(id));
   * await leasehold.close();
   * ```
   */
  async retry(id: string): Promise<AdminResult> {
    checkTaskId(id);
    return onlyOne(await this.#store.retry([{ namespace: this.namespace, id }]));
  }

  /**
   * Deletes a task that is not running, with its attempts. The result has the state in which it was. Its id may be used
   * again.
   * @throws STORE_UNAVAILABLE, INVALID_OPTION, CLOSED
   * @example
   * ```ts
   * import { connect, defineTask } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const { id } = await leasehold.tasks.enqueue(defineTask("mail"), {});
   * console.log(await leasehold.tasks.delete(id), await leasehold.tasks.get(id));
   * await leasehold.close();
   * ```
   */
  async delete(id: string): Promise<AdminResult> {
    checkTaskId(id);
    return onlyOne(await this.#store.delete([{ namespace: this.namespace, id }]));
  }

  /**
   * Starts a worker. It runs, and keeps the process alive, until the worker or this client is closed.
   * @throws INVALID_OPTION, CLOSED
   * @example
   * ```ts
   * import { connect, defineTask } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const handlers = [defineTask("mail").handle((data) => console.log("sent to", data))];
   * leasehold.tasks.work(handlers, { concurrency: 4 });
   * await leasehold.close();
   * ```
   */
  work(handlers: readonly TaskHandler[], options: WorkerOptions = {}): Worker {
    if (this.#closed) throw new ClosedError();
    const context = {
      store: this.#store,
      ready: this.#ready,
      env: this.#env,
      namespace: this.namespace,
      holder: this.holder,
      onClosed: () => this.#workers.delete(worker),
    };
    const worker: Worker = workerOver(context, handlers, options);
    this.#workers.add(worker);
    this.#reaper ??= startReaper(this.#store, this.#env);
    return worker;
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.close()));
    await this.#ready.close();
    await this.#reaper?.stop();
    await this.#owned.close?.();
  }

  async #newTask<Input>(
    definition: TaskDefinition<Input, unknown>,
    task: TaskToEnqueue<Input>,
  ): Promise<NewTask> {
    const { data, scheduledAt, dedupeKey, id, ...overrides } = task;
    const settings = settingsOf(definition.defaults, overrides);
    if (id !== undefined) checkTaskId(id);
    checkNewName("kind", definition.kind);
    checkNewName("queue", settings.queue);
    if (dedupeKey !== undefined) checkName("dedupeKey", dedupeKey);
    if (scheduledAt !== undefined) checkScheduledAt(scheduledAt);
    return {
      ...settings,
      namespace: this.namespace,
      id: id ?? this.#newId(),
      kind: definition.kind,
      data: await definition.check(data),
      scheduledAt: scheduledAt?.toISOString() ?? null,
      dedupeKey: dedupeKey ?? null,
    };
  }
}
