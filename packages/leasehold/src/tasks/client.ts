/** What a program does with tasks: enqueue, look, steer, work. */

import {
  ClosedError,
  checkArray,
  checkKnown,
  checkName,
  checkPage,
  LEASE_STATES,
  type LeaseholdError,
  type LeaseView,
  type Owned,
  type Page,
  withoutUndefined,
} from "../core/index.js";
import {
  Backoff,
  type Env,
  invariant,
  newHolder,
  type Repeating,
  sleep,
  systemEnv,
  taskIds,
} from "../env/index.js";
import {
  checkDefaults,
  checkDefinition,
  checkId,
  checkScheduledAt,
  TASK_DEFAULTS,
  type TaskDefaults,
  type TaskDefinition,
  type TaskHandler,
} from "./define.js";
import {
  type AdminOutcome,
  type EnqueueOutcome,
  type NewTask,
  type SqlClient,
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
import { type Worker, type WorkerOptions, workerOver } from "./worker.js";

export interface TasksOptions {
  /** The tenant whose tasks these are. Default `default`. */
  namespace?: string;
  /** Identity of this process incarnation, kept with every attempt. Default `pid-<pid>-<random>`. */
  holder?: string;
  /** A pino logger or anything of its shape. Default: silent. */
  logger?: Env["logger"];
  /** Clock, randomness and logger, for tests and simulation. Default: the real ones. */
  env?: Partial<Env>;
}

/** How one task differs from its definition. */
export interface EnqueueTaskOptions extends TaskDefaults {
  /** Not before then, by the store's clock. Default: at once. */
  scheduledAt?: Date;
  /** At most one unfinished task per kind and key: a second one answers the first one's id. */
  dedupeKey?: string;
  /** A UUID of the caller's own: enqueueing the same id again adds nothing. Default: a new UUIDv7. */
  id?: string;
  /** Enqueue inside this SQL transaction: the task exists if and when it commits. */
  client?: SqlClient;
}

/** One task of `enqueueAll`. */
export interface TaskToEnqueue<Input> extends Omit<EnqueueTaskOptions, "client"> {
  readonly data: Input;
}
/** What `enqueue` answers: whether the task was added, or which one with its key or id was there. */
export type Enqueued = Exclude<EnqueueOutcome, { status: "failed" }>;
/** What `cancel` and `retry` answer: whether they did, or what does not allow it. */
export type AdminResult = Exclude<AdminOutcome, { status: "failed" }>;

const OF_ONE_TASK = { scheduledAt: true, dedupeKey: true, id: true, ...TASK_DEFAULTS } as const;
const ENQUEUE_OPTIONS: Readonly<Record<keyof EnqueueTaskOptions, true>> = {
  ...OF_ONE_TASK,
  client: true,
};
const TO_ENQUEUE: Readonly<Record<keyof TaskToEnqueue<unknown>, true>> = {
  ...OF_ONE_TASK,
  data: true,
};
const ENQUEUE_BUDGET_MS = 10_000;
const RETRY = { firstMs: 50, longestMs: 1_000 };
/** What a task has that nothing else is said of. */
export const DEFAULTS = {
  queue: "default",
  priority: 0,
  maxAttempts: 10,
  crashLimit: 10,
  backoffMs: 1_000,
  maxBackoffMs: 3_600_000,
} as const satisfies Required<TaskDefaults>;

/** `connect()` calls it. Apart from the class, whose public type shows no constructor. */
export let tasksOver: (store: TaskStore, options: TasksOptions, owned: Owned) => TasksClient;

/** Tasks that nothing else closes. */
export interface TasksClient {
  readonly tasks: Tasks;
  /** Closes the workers, which drain (see `Worker.close`), then what is owned. The same promise each time. */
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
    tasksOver = (store, options, owned) => {
      const tasks = new Tasks(store, options, owned);
      return { tasks, close: () => (tasks.#closed ??= tasks.#close()) };
    };
  }

  /** Who we are to others: `options.holder`, or a name made for this client. */
  readonly holder: string;
  /** The tenant whose tasks these are. */
  readonly namespace: string;
  readonly #store: TaskStore;
  readonly #env: Env;
  readonly #owned: Owned;
  readonly #newId: () => string;
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
    this.#ready = new Ready(store, this.namespace, this.#env);
  }

  /**
   * Adds a task. Repeated by itself when the store's answer is lost, which never adds a second one.
   * @throws INVALID_OPTION naming the field; STORE_UNAVAILABLE (outcome `unknown`: it may be there)
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
   * Adds many tasks of a kind in one statement; answers in their order.
   * @throws as `enqueue`; then any of them may have been added
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
    options: { client?: SqlClient } = {},
  ): Promise<Enqueued[]> {
    if (this.#closed) throw new ClosedError();
    checkDefinition(definition);
    checkArray("tasks", tasks);
    checkKnown(options, { client: true });
    for (const [at, task] of tasks.entries()) checkKnown(task, TO_ENQUEUE, `tasks.${at}`);
    const added = await Promise.all(tasks.map((task) => this.#newTask(definition, task)));
    const [first] = added;
    if (!first) return [];
    // Who runs it has the same in its own span.
    const ids = added.length === 1 ? { "leasehold.task.id": first.id } : {};
    const attributes = { "leasehold.task.kind": first.kind, ...ids };
    const add = () => this.#add(added, options);
    return this.#env.telemetry?.span("leasehold.task enqueue", { attributes }, add) ?? add();
  }

  async #add(added: readonly NewTask[], options: { client?: SqlClient }): Promise<Enqueued[]> {
    if (options.client) return settled(await this.#store.enqueue(added, options));
    const { clock, random } = this.#env;
    const backoff = new Backoff(random, RETRY);
    const giveUpAtMs = clock.monotonic() + ENQUEUE_BUDGET_MS;
    for (;;) {
      const timeoutMs = Math.max(1, giveUpAtMs - clock.monotonic());
      const outcomes = await this.#store.enqueue(added, { timeoutMs });
      const pauseMs = backoff.nextMs();
      const again = outcomes.some((outcome) => outcome.status === "failed" && outcome.retryable);
      if (!again || pauseMs >= timeoutMs) return settled(outcomes);
      await sleep(clock, pauseMs);
    }
  }

  /**
   * The task with its attempts; null when there is none.
   * @throws STORE_UNAVAILABLE, INVALID_OPTION, CLOSED
   */
  async get(id: string): Promise<TaskDetails | null> {
    checkId(id);
    return this.#store.get({ namespace: this.namespace, id });
  }

  /**
   * The tasks that match, newest first, a page at a time.
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
    checkPage(query, { states: true, queue: true, kind: true }, TASK_STATES);
    return this.#store.list({ ...query, namespace: this.namespace });
  }

  /**
   * Grants on tasks, running and ended, as leases on resources named `task:ID`: those of the newest
   * task first, a page at a time.
   * @throws STORE_UNAVAILABLE, INVALID_OPTION, CLOSED
   */
  async leases(query: Omit<TaskLeaseQuery, "namespace"> = {}): Promise<Page<LeaseView>> {
    checkPage(query, { states: true, renewedOnly: true }, LEASE_STATES);
    return this.#store.leases({ ...query, namespace: this.namespace });
  }

  /**
   * How many tasks are in each state.
   * @throws STORE_UNAVAILABLE, CLOSED
   */
  counts(): Promise<Record<TaskState, number>> {
    return this.#store.counts(this.namespace);
  }

  /**
   * Ends a pending or running task; a worker that has it is refused from then on.
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
    checkId(id);
    return onlyOne(await this.#store.cancel([{ namespace: this.namespace, id }]));
  }

  /**
   * A dead or cancelled task starts over; a pending one becomes due now.
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
    checkId(id);
    return onlyOne(await this.#store.retry([{ namespace: this.namespace, id }]));
  }

  /**
   * Starts a worker that runs until it, or this client, is closed; until then it holds the process open.
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
    const { data, scheduledAt, dedupeKey, id, ...own } = task;
    checkDefaults(own);
    if (id !== undefined) checkId(id);
    if (dedupeKey !== undefined) checkName("dedupeKey", dedupeKey);
    if (scheduledAt !== undefined) checkScheduledAt(scheduledAt);
    return {
      ...DEFAULTS,
      ...withoutUndefined(definition.defaults),
      ...withoutUndefined(own),
      namespace: this.namespace,
      id: id ?? this.#newId(),
      kind: definition.kind,
      data: await definition.check(data),
      scheduledAt: scheduledAt?.toISOString() ?? null,
      dedupeKey: dedupeKey ?? null,
    };
  }
}

function onlyOne([outcome]: readonly AdminOutcome[]): AdminResult {
  invariant(outcome, "one outcome per task");
  if (outcome.status === "failed") throw outcome.error satisfies LeaseholdError;
  return outcome;
}

/** The outcomes, or the first failure as an error. */
function settled(outcomes: readonly EnqueueOutcome[]): Enqueued[] {
  return outcomes.map((outcome) => {
    if (outcome.status === "failed") throw outcome.error satisfies LeaseholdError;
    return outcome;
  });
}
