/** The tasks of one namespace: enqueue, list, cancel and retry them, and start workers. */
import { type Env, envFrom, invariant, newHolder, type Repeating, taskIds } from "../env/index.js";
import {
  ClosedError,
  checkKnown,
  checkName,
  checkPage,
  LEASE_STATES,
  type LeaseView,
  type Owned,
  type Page,
  Retrying,
  type SqlTransaction,
  TASK_CALL_RETRIES,
  withoutUndefined,
  withRetries,
} from "../lease/index.js";
import { Adding } from "./adding.js";
import { checkDefinition, checkIds, type TaskDefinition, type TaskHandler } from "./define.js";
import {
  checkResultOptions,
  handleOver,
  type OutputOf,
  type ResultOptions,
  type TaskHandle,
} from "./handle.js";
import { type Limits, limitsOver } from "./limit-client.js";
import { newTaskOf } from "./new-task.js";
import {
  areIdsNew,
  COUNTED,
  checkStatsOptions,
  checkTasksToEnqueue,
  ENQUEUE_OPTIONS,
  type EnqueueTaskOptions,
  type TaskStatsOptions,
  type TaskStores,
  type TasksOptions,
  type TaskToEnqueue,
} from "./options.js";
import {
  type Json,
  TASK_STATES,
  type TaskDetails,
  type TaskLeaseQuery,
  type TaskQuery,
  type TaskState,
  type TaskStatistics,
  type TaskStore,
  type TaskView,
} from "./port.js";
import { Ready } from "./ready.js";
import { startBackground } from "./reaper.js";
import { checkTaskId } from "./record.js";
import { ResultWaits } from "./result-waits.js";
import { type AdminResult, onlyOne, outputOf } from "./results.js";
import { type Schedule, type Schedules, schedulesOver } from "./schedules/client.js";
import type { ScheduleOptions } from "./schedules/declaration.js";
import type { DueKinds } from "./unhandled.js";
import { type Worker, type WorkerOptions, workerOver } from "./worker.js";

/** For the command line; undefined if the store cannot group its tasks. */
export let dueKindsOf: (tasks: Tasks) => DueKinds | undefined;
/** Called by `connect()`. It is a function, so that the public type of `Tasks` has no constructor. */
export let tasksOver: (stores: TaskStores, options: TasksOptions, owned: Owned) => TasksClient;

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
 * const { id } = await leasehold.tasks.enqueue(defineTask("mail"), { to: "ada@example.com" });
 * console.log(await leasehold.tasks.get(id), await leasehold.tasks.counts());
 * console.log(await leasehold.tasks.leases({ states: ["live"] }));
 * await leasehold.close();
 * ```
 */
export class Tasks {
  static {
    dueKindsOf = (tasks) => {
      const { dueKinds } = tasks.#calls;
      return dueKinds && ((query) => dueKinds({ ...query, namespace: tasks.namespace }));
    };
    tasksOver = (stores, options, owned) => {
      const tasks = new Tasks(stores, options, owned);
      return { tasks, close: () => (tasks.#closed ??= tasks.#close()) };
    };
  }

  /** The holder name of this client's workers: `options.holder`, or a generated one. */
  readonly holder: string;
  /** The namespace of the tasks. */
  readonly namespace: string;
  /** The schedules of the namespace: list, pause, resume, remove and run them. {@link Tasks.schedule} declares one. */
  readonly schedules: Schedules;
  /** The limits of kinds and queues: list, declare and remove them. Workers declare those of their kinds. */
  readonly limits: Limits;
  readonly #calls: Pick<TaskStore, keyof typeof TASK_CALL_RETRIES>;
  readonly #env: Env;
  readonly #owned: Owned;
  readonly #newId: () => string;
  readonly #adding: Adding;
  readonly #workers = new Set<Worker>();
  readonly #ready: Ready;
  readonly #results: ResultWaits;
  readonly #stores: TaskStores;
  #background: Repeating | undefined;
  #closed: Promise<void> | undefined;

  private constructor(stores: TaskStores, options: TasksOptions, owned: Owned) {
    this.#env = envFrom(options);
    this.namespace = options.namespace ?? "default";
    this.holder = options.holder ?? newHolder(this.#env.random);
    for (const name of ["namespace", "holder"] as const) checkName(name, this[name]);
    const store = stores.tasks;
    this.#newId = taskIds(this.#env.clock, this.#env.random);
    this.#adding = new Adding(store, this.#env);
    this.#ready = new Ready(store, this.namespace, this.#env);
    this.#results = new ResultWaits(store, this.namespace, this.#env);
    [this.#stores, this.#owned] = [stores, owned];
    this.#calls = withRetries(store, TASK_CALL_RETRIES, new Retrying(this.#env));
    this.limits = limitsOver(this, this.#calls.limits);
    this.schedules = schedulesOver(this, stores.schedules, this.#env, this.#newId);
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
  async enqueue<Input, Output = unknown>(
    definition: TaskDefinition<Input, unknown, Output>,
    data: Input,
    options: EnqueueTaskOptions = {},
  ): Promise<TaskHandle<Output>> {
    checkDefinition(definition);
    checkKnown(options, ENQUEUE_OPTIONS);
    const { client, ...rest } = options;
    const within = withoutUndefined({ client });
    const [handle] = await this.enqueueAll(definition, [{ ...rest, data }], within);
    invariant(handle, "one outcome per task");
    return handle;
  }

  /**
   * Adds many tasks of one kind in one call of the store. The results are in the order of the tasks.
   * @throws as `enqueue`. After STORE_UNAVAILABLE any of the tasks may have been added. After INVALID_OPTION none has: also if
   *   the store refuses one of them for good; a transaction of `client` must then be rolled back
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
  async enqueueAll<Input, Output = unknown>(
    definition: TaskDefinition<Input, unknown, Output>,
    tasks: readonly TaskToEnqueue<Input>[],
    options: { client?: SqlTransaction } = {},
  ): Promise<TaskHandle<Output>[]> {
    if (this.#closed) throw new ClosedError();
    checkDefinition(definition);
    checkTasksToEnqueue(tasks, options);
    const newTasks = await Promise.all(
      tasks.map((task) => newTaskOf(definition, task, this.namespace, this.#newId)),
    );
    const enqueued = await this.#adding.enqueue(newTasks, areIdsNew(tasks), options);
    return enqueued.map((one) => handleOver<Output>(one, (id, wait) => this.#result(id, wait)));
  }

  /**
   * Declares a schedule: one task at each fire time, made by whichever worker's process or server is first. Declare it at each
   * start: if it is the same, nothing changes. An operator's pause stays.
   * @throws INVALID_OPTION, STORE_UNAVAILABLE, CLOSED
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * await leasehold.tasks.schedule("nightly", { cron: "0 2 * * *", kind: "report", data: null });
   * await leasehold.close();
   * ```
   */
  async schedule<Input>(name: string, options: ScheduleOptions<Input>): Promise<Schedule> {
    if (this.#closed) throw new ClosedError();
    return this.schedules.declare(name, options);
  }

  /**
   * Waits for the result of a task that was enqueued elsewhere: `TaskHandle.result` for its id.
   * @throws as `TaskHandle.result`
   * @example
   * ```ts
   * import { connect, defineTask } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const greet = defineTask("greet");
   * const { id } = await leasehold.tasks.enqueue(greet, "Ada");
   * leasehold.tasks.work([greet.handle((name) => `Hello, ${name}!`)]);
   * console.log(await leasehold.tasks.result(id, { timeoutMs: 5_000 }));
   * await leasehold.close();
   * ```
   */
  result<Output = unknown>(id: string, options?: ResultOptions): Promise<OutputOf<Output>> {
    return this.#result(id, options) as Promise<OutputOf<Output>>;
  }

  /**
   * Reads a task with its attempts; null if it does not exist.
   * @throws STORE_UNAVAILABLE, INVALID_OPTION, CLOSED
   */
  async get(id: string): Promise<TaskDetails | null> {
    checkTaskId(id);
    return this.#calls.get({ namespace: this.namespace, id });
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
    return this.#calls.list({ ...query, namespace: this.namespace });
  }

  /**
   * Lists running and ended grants on tasks, as leases on resources named `task:ID`. The grants of the
   * newest task come first, one page per call.
   * @throws STORE_UNAVAILABLE, INVALID_OPTION, CLOSED
   */
  async leases(query: Omit<TaskLeaseQuery, "namespace"> = {}): Promise<Page<LeaseView>> {
    checkPage(query, { states: true, renewedOnly: true }, LEASE_STATES);
    return this.#calls.leases({ ...query, namespace: this.namespace });
  }

  /**
   * Counts the tasks in each state.
   * @throws STORE_UNAVAILABLE, CLOSED
   */
  counts(): Promise<Record<TaskState, number>> {
    return this.#calls.counts(this.namespace);
  }

  /**
   * Counts the tasks by queue and kind: of each state, those that are due, and how long the oldest has been due. At most
   * 20,000 tasks of each state are counted; `complete` tells whether these are all.
   * @throws STORE_UNAVAILABLE, INVALID_OPTION, CLOSED
   * @example
   * ```ts
   * import { connect } from "leasehold";
   *
   * const leasehold = await connect("memory:");
   * const { items } = await leasehold.tasks.stats({ queues: ["mails"] });
   * for (const { queue, kind, due, dueForMs } of items) console.log(queue, kind, due, dueForMs);
   * await leasehold.close();
   * ```
   */
  async stats(options: TaskStatsOptions = {}): Promise<TaskStatistics> {
    checkStatsOptions(options);
    const { namespace } = this;
    return this.#calls.stats({ limit: COUNTED, ...withoutUndefined(options), namespace });
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
    return onlyOne(await this.#calls.cancel([{ namespace: this.namespace, id }]));
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
    return onlyOne(await this.#calls.retry([{ namespace: this.namespace, id }]));
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
    return onlyOne(await this.#calls.delete([{ namespace: this.namespace, id }]));
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
      store: this.#stores.tasks,
      ready: this.#ready,
      env: this.#env,
      namespace: this.namespace,
      holder: this.holder,
      onClosed: () => this.#workers.delete(worker),
    };
    const worker: Worker = workerOver(context, handlers, options);
    this.#workers.add(worker);
    this.#background ??= startBackground(this.#stores, this.#env);
    return worker;
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.close()));
    await Promise.all([this.#ready.close(), this.#results.close(), this.#background?.stop()]);
    await this.#owned.close?.();
  }

  async #result(id: string, options: ResultOptions = {}): Promise<Json> {
    checkTaskId(id);
    checkResultOptions(options);
    return outputOf(await this.#results.of(id, options));
  }
}
